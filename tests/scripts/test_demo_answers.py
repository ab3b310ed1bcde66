"""The exported demo answers simple questions, stops by itself and drafts well."""

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import judge_demo  # noqa: E402
from demo.answering import answer_all, verdict  # noqa: E402

PROFILE = ROOT / "profiles" / "demo"
ASKED = [
    "hello",
    "what is a glacier?",
    "who are you?",
    "What is the difference between a lake and a river?",
]


@pytest.fixture(scope="module")
def records():
    return {r["question"]: r for r in answer_all(PROFILE, ASKED)}


def test_simple_questions_pass_the_judge(records):
    assert {q: verdict(r) for q, r in records.items()} == {q: [] for q in ASKED}


def test_the_answers_are_about_the_question(records):
    assert "ice" in records["what is a glacier?"]["text"]
    assert "--model" in records["who are you?"]["text"]


def test_a_chain_of_three_commits_more_than_one_and_a_half_tokens_a_round(records):
    rounds = [n for r in records.values() for n in r["committed"]]
    assert sum(rounds) / len(rounds) > 1.5


def test_the_verdict_names_every_fault():
    bad = {"text": "one two three four one two three four", "finish_reason": "length"}
    assert verdict(bad) == ["does not end", "loops"]
    assert verdict({"text": "Yes.", "finish_reason": "stop"}) == ["too short"]


def test_the_judge_takes_json_lines(tmp_path):
    questions = json.loads((PROFILE / "questions.json").read_text("utf-8"))[:2]
    lines = [
        json.dumps({"question": q["question"], "text": "This is a good short answer.",
                    "finish_reason": "stop"})
        for q in questions
    ]  # fmt: skip
    path = tmp_path / "answers.jsonl"
    path.write_text("\n".join(lines) + "\n")
    result = judge_demo.judge(judge_demo.from_records(path), questions)
    assert (result["seen"], result["failures"]) == ([2, 2], [])
