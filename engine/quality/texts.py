"""The texts that losses are measured on: two that ship, or a person's own."""

import hashlib
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from engine.errors import RequestError

SHIPPED = ("prose", "code")
"""Files of ``engine/quality/texts``; its README says where they come from."""

MAX_TEXT_BYTES = 4 << 20
"""About a million tokens: more takes hours and tells nothing new."""


@dataclass(frozen=True, slots=True)
class Text:
    """A text with the name that reports give it."""

    name: str
    body: str

    @property
    def sha256(self) -> str:
        """Of its UTF-8 bytes: tells whether two figures are of one text."""
        return hashlib.sha256(self.body.encode()).hexdigest()


def shipped_texts() -> tuple[Text, ...]:
    """Prose and code that no released model was trained on."""
    folder = resources.files("engine") / "quality" / "texts"
    return tuple(Text(one, (folder / f"{one}.txt").read_text("utf-8")) for one in SHIPPED)


def read_text(path: Path) -> Text:
    """Read a person's own text; its name is the file's.

    Raises:
        RequestError: the file does not read, is too long, is no UTF-8 or holds no word.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_TEXT_BYTES + 1)
    except OSError as problem:
        raise RequestError(f"{path} does not read: {problem.strerror}.") from None
    if len(raw) > MAX_TEXT_BYTES:
        raise RequestError(
            f"{path} holds more than {MAX_TEXT_BYTES:,} bytes.", "Give a part of it."
        )
    try:
        body = raw.decode("utf-8")
    except UnicodeDecodeError as problem:
        raise RequestError(
            f"{path} is no UTF-8 at byte {problem.start}.", "Give a plain text file."
        ) from None
    if not body.strip():
        raise RequestError(f"{path} holds no text.")
    return Text(path.name, body)
