"""Loads the hand-written small talk and the chatterbot corpus as (question, answer) pairs."""

from __future__ import annotations

import re
from pathlib import Path

SMALLTALK = Path(__file__).with_name("smalltalk.txt")
TOPICS = (
    "ai",
    "computers",
    "food",
    "history",
    "literature",
    "money",
    "science",
    "sports",
    "trivia",
)
_RUDE = re.compile(
    r"\b(kill|sex|drunk|drugs?|stupid|hate|murder|damn|hell|hitler)\b", re.IGNORECASE
)


def read_smalltalk(path: Path = SMALLTALK) -> list[tuple[list[str], list[str]]]:
    """Returns blocks of (ways to ask, possible answers) from the text file."""
    blocks: list[tuple[list[str], list[str]]] = []
    for line in path.read_text("utf-8").splitlines():
        if line.startswith("Q:"):
            blocks.append(([q.strip() for q in line[2:].split(" | ")], []))
        elif line.startswith("A:"):
            blocks[-1][1].append(line[2:].strip())
    return blocks


def read_chatterbot(folder: Path) -> list[tuple[str, str]]:
    """Returns clean (question, answer) pairs of the English chatterbot corpus (BSD).

    Only answers of at least five words are kept; each is capitalised and closed with a full stop.
    """
    import yaml

    pairs = []
    for topic in TOPICS:
        path = folder / f"{topic}.yml"
        data = yaml.safe_load(path.read_text("utf-8"))
        for talk in data["conversations"]:
            question, answers = str(talk[0]), [str(a) for a in talk[1:]]
            pairs += [(question, _tidy(a)) for a in answers if _usable(question, a)]
    return pairs


def _usable(question: str, answer: str) -> bool:
    """True for polite plain-ASCII exchanges with an answer of 5 to 45 words."""
    plain = all(32 <= ord(c) < 127 for c in question + answer)
    words = len(answer.split())
    return plain and 5 <= words <= 45 and not _RUDE.search(question + " " + answer)


def _tidy(answer: str) -> str:
    """Capitalises the first letter and the word 'i', and closes the sentence."""
    text = re.sub(r"\s+", " ", answer).strip()
    text = re.sub(r"\bi\b(?=[ ']|$)", "I", text)
    text = text[0].upper() + text[1:]
    return text if text[-1] in ".!?" else text + "."
