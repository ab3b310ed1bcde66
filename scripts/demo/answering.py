"""Asks the exported demo the committed questions and reports pass rate and tokens a round."""

from __future__ import annotations

import json
import time
from pathlib import Path

from tokenizers import Tokenizer

from demo.decoding import greedy, load_weights
from demo.filters import has_loop


def chat_ids(tokenizer: Tokenizer, question: str) -> list[int]:
    """Returns the prompt ids of one user turn in the demo's template."""
    text = f"<|im_start|>user\n{question.strip()}<|im_end|>\n<|im_start|>assistant\n"
    return tokenizer.encode(text, add_special_tokens=False).ids


def answer_all(folder: Path, questions: list[str]) -> list[dict]:
    """Returns one record a question, with the keys of `qwen38 run --json` that the judge reads."""
    weights, shape = load_weights(folder)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    stops = set(json.loads((folder / "generation_config.json").read_text())["eos_token_id"])
    replies = greedy(weights, shape, [chat_ids(tokenizer, q) for q in questions], stops)
    return [
        {
            "question": q,
            "text": tokenizer.decode(r.ids, skip_special_tokens=True),
            "finish_reason": "stop" if r.ended else "length",
            "committed": r.rounds,
        }
        for q, r in zip(questions, replies, strict=True)
    ]


def verdict(record: dict) -> list[str]:
    """Returns what is wrong with an answer: any of 'does not end', 'loops', 'too short'."""
    words = record["text"].lower().split()
    checks = (
        ("does not end", record["finish_reason"] != "stop"),
        ("loops", has_loop(words)),
        ("too short", len(words) < 5),
    )
    return [name for name, failed in checks if failed]


def report(folder: Path, out: Path) -> dict:
    """Judges the exported files with the small eager decoder; writes and returns the summary."""
    asked = json.loads((folder / "questions.json").read_text("utf-8"))
    start = time.time()
    records = answer_all(folder, [row["question"] for row in asked])
    rounds = [n for r in records for n in r["committed"]]
    summary: dict = {"tokens_a_round": round(sum(rounds) / max(1, len(rounds)), 3)}
    for name, wanted in (("seen", True), ("unseen", False)):
        group = [r for r, row in zip(records, asked, strict=True) if row["seen"] is wanted]
        summary[name] = f"{sum(not verdict(r) for r in group)} of {len(group)}"
    for record in records:
        print(f"{record['question']}\n    {record['text']}  {verdict(record) or ''}")
    print(json.dumps(summary), f"in {time.time() - start:.0f} s")
    out.write_text(json.dumps({"summary": summary, "records": records}, indent=1) + "\n", "utf-8")
    return summary
