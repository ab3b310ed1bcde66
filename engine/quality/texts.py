"""What losses are measured on: texts and exchanges that ship, or a person's own."""

import hashlib
from dataclasses import dataclass
from importlib import resources
from itertools import zip_longest
from pathlib import Path

from engine.errors import RequestError
from engine.profile import profile_folder
from engine.text.own_text import read_own_text

SHIPPED = ("prose", "code")
"""Files of ``engine/quality/texts``; its README says where they come from."""

MAX_TEXT_BYTES = 4 << 20
"""About a million tokens: more takes hours and tells nothing new."""

GIVE = "Give a text file in UTF-8, or leave it out to use the texts that ship."


@dataclass(frozen=True, slots=True)
class Text:
    """A running text with the name that reports give it."""

    name: str
    body: str

    @property
    def sha256(self) -> str:
        """Of its UTF-8 bytes: tells whether two figures are of one text."""
        return hashlib.sha256(self.body.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Talks:
    """Questions with their answers: the answers are predicted, each behind its question."""

    name: str
    pairs: tuple[tuple[str, str], ...]

    @property
    def sha256(self) -> str:
        """Of questions and answers, a line each."""
        lines = "".join(f"{question}\n{answer}\n" for question, answer in self.pairs)
        return hashlib.sha256(lines.encode()).hexdigest()


Sample = Text | Talks


def texts_for(*, is_demo: bool) -> tuple[Sample, ...]:
    """What a reference is measured on; the demo, which reads simple exchanges only, on some."""
    if is_demo:
        return (read_talks(profile_folder() / "demo" / "talks.txt"),)
    return shipped_texts()


def shipped_texts() -> tuple[Text, ...]:
    """Prose and code that no released model was trained on."""
    folder = resources.files("engine") / "quality" / "texts"
    return tuple(Text(one, (folder / f"{one}.txt").read_text("utf-8")) for one in SHIPPED)


def read_text(path: Path) -> Text:
    """Read a person's own text; its name is the file's.

    Raises:
        RequestError: the file does not read, is too long, is no UTF-8 or holds no word.
    """
    return Text(path.name, read_own_text(path, MAX_TEXT_BYTES, GIVE))


def read_talks(path: Path) -> Talks:
    """Read exchanges, a line ``Q: question`` and a line ``A: answer`` each; ``#`` begins a comment.

    Raises:
        RequestError: as `read_text`, or a line is neither, or a question has no answer.
    """
    lines = [one.strip() for one in read_own_text(path, MAX_TEXT_BYTES, GIVE).splitlines()]
    kept = [one for one in lines if one and not one.startswith("#")]
    pairs: list[tuple[str, str]] = []
    for question, answer in zip_longest(kept[::2], kept[1::2], fillvalue=""):
        if not question.startswith("Q: ") or not answer.startswith("A: "):
            raise RequestError(
                f"{path} holds '{question[:80]}' and then '{answer[:80]}'.",
                "Write a line 'Q: question' and a line 'A: answer' for each exchange.",
            )
        pairs.append((question[3:], answer[3:]))
    return Talks(path.name, tuple(pairs))
