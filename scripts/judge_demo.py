"""Judges the demo model's answers to the 60 committed questions.

An answer passes when it ends by itself, repeats no 4-gram of words and has at least 5 words.
By default each question goes to `qwen38 run QUESTION --json --temperature 0`. With `--records`
a file of JSON lines with `question`, `text` and `finish_reason` is judged instead; with `--eager`
the exported files are run by the small decoder beside this script.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from demo.answering import answer_all, verdict

ROOT = Path(__file__).resolve().parent.parent
PROFILE = ROOT / "profiles" / "demo"
Answerer = Callable[[list[str]], list[dict]]


def from_command(command: list[str]) -> Answerer:
    """Returns an answerer that runs `command QUESTION --json --temperature 0` once a question."""

    def ask(question: str) -> dict:
        call = [*command, question, "--json", "--temperature", "0"]
        done = subprocess.run(call, capture_output=True, text=True, check=True)
        return {"question": question} | json.loads(done.stdout)

    return lambda questions: [ask(q) for q in questions]


def from_records(path: Path) -> Answerer:
    """Returns an answerer that looks answers up in a file of JSON lines."""
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]
    by_question = {row["question"]: row for row in rows}
    return lambda questions: [by_question[q] for q in questions]


def judge(answerer: Answerer, questions: list[dict]) -> dict:
    """Returns {"seen": [passed, asked], "unseen": ..., "failures": [...]}."""
    records = answerer([row["question"] for row in questions])
    result: dict = {"seen": [0, 0], "unseen": [0, 0], "failures": []}
    for row, record in zip(questions, records, strict=True):
        group = result["seen" if row["seen"] else "unseen"]
        wrong = verdict(record)
        group[0] += not wrong
        group[1] += 1
        if wrong:
            result["failures"].append({"question": row["question"], "text": record["text"],
                                       "wrong": wrong})  # fmt: skip
    return result


def main() -> int:
    """Prints the result as JSON; exit code 1 when fewer than `--least` answers pass."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--command", nargs="+", default=[sys.executable, "-m", "app", "run"])
    parser.add_argument("--records", type=Path, help="JSON lines to judge")
    parser.add_argument("--eager", action="store_true", help="run the files without the product")
    parser.add_argument("--profile", type=Path, default=PROFILE)
    parser.add_argument("--least", type=int, default=54, help="answers that must pass, of 60")
    args = parser.parse_args()
    if args.records:
        answerer = from_records(args.records)
    elif args.eager:
        answerer = lambda questions: answer_all(args.profile, questions)
    else:
        answerer = from_command(args.command)
    questions = json.loads((args.profile / "questions.json").read_text("utf-8"))
    result = judge(answerer, questions)
    print(json.dumps(result, indent=1))
    return int(result["seen"][0] + result["unseen"][0] < args.least)


if __name__ == "__main__":
    raise SystemExit(main())
