"""Decides which teacher answers are fit to train on."""

from __future__ import annotations

import re

_PLAIN = re.compile(r"[A-Za-z0-9 ,.;:'\"?!()%$/&+-]+")
_BAD = re.compile(
    r"(?i)as an ai|\bai assistant|language model|i'm not sure|i cannot|"
    r"i can't assist|i'm sorry|i am sorry|i apologize|"
    r"\bfact\b|question:|answer:|\bprompt\b|provided|mentioned|original sentence|rewritten|"
    r"^no, i do(?:n't| not) know|i don't know|here(?:'s| is) (?:a|the|your) (?:short|possible|rev)|"
    r"the (?:sentence|question|statement|text|passage) |this sentence|http|www|\bsex|\bkill|"
    r"suicid|\brape|\bnazi|\bslave|\bracial|\brace of|dark skin|\bgod\b.*\bhate"
)


def has_loop(words: list[str], size: int = 4) -> bool:
    """True when any run of `size` words occurs twice."""
    seen = set()
    for i in range(len(words) - size + 1):
        gram = tuple(words[i : i + size])
        if gram in seen:
            return True
        seen.add(gram)
    return False


def tidy(answer: str) -> str:
    """Joins lines, trims, and takes off quotes around the whole answer."""
    text = re.sub(r"\s+", " ", answer).strip()
    if len(text) > 2 and text[0] == text[-1] == '"' and text.count('"') == 2:
        text = text[1:-1].strip()
    text = re.sub(
        r"\ba (?=(?:organ|animal|area|object|event|idea|act|unshaved|important|"
        r"instrument|insect|edge|island|example|adult|art|electric|old|open|Indian|"
        r"American|English|Italian)\b)",
        "an ",
        text,
    )
    return re.sub(
        r"\bA (?=(?:organ|animal|area|object|event|idea|act|insect|island|adult)\b)", "An ", text
    )


def good_answer(question: str, answer: str) -> bool:
    """True for 5 to 70 words of plain, closed, non-repeating English."""
    words = re.findall(r"[a-z0-9']+", answer.lower())
    if not 5 <= len(words) <= 70 or not _PLAIN.fullmatch(answer) or answer[-1] not in ".!?":
        return False
    if not answer[0].isupper() or _BAD.search(answer) or has_loop(words):
        return False
    if (
        re.search(r"\b(\w+)(?: \1\b|s? and \1s?\b| or \1\b)", answer.lower())
        or answer.count('"') % 2
    ):
        return False
    if re.search(r"(?:^| )\d\.|\*|- ", answer) or answer.count("(") != answer.count(")"):
        return False
    if re.match(r"(?i)(how|give me a tip|what is the best way)", question) and answer[:2] == "I ":
        return False
    content = [w for w in words if len(w) > 3]
    stale = len(content) > 6 and len(set(content)) / len(content) < 0.6
    asked = re.findall(r"[a-z0-9']+", question.lower())
    return not stale and words != asked
