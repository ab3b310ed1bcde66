"""Files in a message: ``@path`` in what a person types has the file's text go along below it.

Only the name of a file that is there counts, so that an address, a decorator or a handle stays a
word; a backslash before the sign keeps even a file's name one. A name with blanks stands in double
quotes. Files are read when the message is sent. Knows no screen.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from app.sessions.entries import FileSpan, MessageEntry
from app.slash import typed_text
from engine.errors import RequestError
from engine.settings.environment import expanded

MAX_BYTES = 4_000_000
"""Longest file that is read: more than the longest context holds."""

_MENTION = re.compile(r'(?<!\S)(\\?)@(?:"([^"\n]+)"|([^\s"]\S*))')
_AFTER_A_NAME = ".,;:!?)]}'\""
_IS_A_PATH = re.compile(r"(~|\.\.?)?/")


@dataclass(frozen=True, slots=True)
class FileText:
    """A file as it is sent; ``name`` as it was typed."""

    name: str
    text: str

    @property
    def block(self) -> str:
        """It as it stands in a message: what the model reads, and what is counted."""
        return f'<file name="{self.name}">\n{self.text}\n</file>'


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message as the model gets it, with the places of the files in it."""

    content: str
    files: tuple[FileSpan, ...] = ()


@dataclass(frozen=True, slots=True)
class Mention:
    """``@name`` at ``start`` of a text; ``is_kept_a_word`` by the backslash before it."""

    name: str
    start: int
    is_kept_a_word: bool


def mentions(text: str) -> Iterator[Mention]:
    """The files that a text names, in order.

    What begins like a path counts even when nothing is there, so that a slip of the pen is told.
    """
    for found in _MENTION.finditer(text):
        typed = found[2] or found[3]
        for name in dict.fromkeys((typed, typed.rstrip(_AFTER_A_NAME))):
            if name and (_is_there(name) or (_IS_A_PATH.match(name) and not _is_folder(name))):
                yield Mention(name, found.start(), bool(found[1]))
                break


def names_in(text: str) -> list[str]:
    """The files that go along with a text, each once."""
    return list(dict.fromkeys(one.name for one in mentions(text) if not one.is_kept_a_word))


def attach(text: str) -> Outgoing:
    """Read the files that a message names and set them below it.

    Raises:
        RequestError: a file is missing, does not read, is no text, or is too large.
    """
    names = names_in(text)
    kept = [one.start for one in mentions(text) if one.is_kept_a_word]
    for start in reversed(kept):
        text = text[:start] + text[start + 1 :]
    try:
        return with_files(text, [read_file(one) for one in names])
    except RequestError as error:
        raise RequestError(error.message, f"{error.mend} \\@ sends a name as a word.") from None


def with_files(text: str, files: Sequence[FileText]) -> Outgoing:
    """A message with files below it."""
    content = text.rstrip() if files else text
    spans: list[FileSpan] = []
    for one in files:
        content += "\n\n"
        spans.append(FileSpan(one.name, len(content), len(content) + len(one.block)))
        content += one.block
    return Outgoing(content, tuple(spans))


def typed_message(entry: MessageEntry) -> str:
    """What a person types to send a message of a session once more."""
    return typed_text(as_words(entry.words, entry.files))


def as_words(text: str, files: Sequence[FileSpan] = ()) -> str:
    """A text whose names of files stay words when it is sent, but for those of ``files``.

    What is pasted reads no file of the person's.
    """
    sent = {one.name for one in files}
    words = [one for one in mentions(text) if one.name not in sent and not one.is_kept_a_word]
    for one in reversed(words):
        text = f"{text[: one.start]}\\{text[one.start :]}"
    return text


def mention_of(name: str) -> str:
    """How a file is named in a message.

    Raises:
        RequestError: the name holds what cannot be typed.
    """
    if '"' in name or not name.isprintable():
        raise RequestError(
            f"The name {name} holds signs that a message cannot name.", "Give the file another one."
        )
    return f'@"{name}"' if " " in name or name[-1:] in _AFTER_A_NAME else f"@{name}"


def read_typed(name: str) -> FileText:
    """Read the file behind a command: its name may stand in quotes, or in the form of a mention.

    Raises:
        RequestError: as `read_file`.
    """
    bare = name.removeprefix("@") if not _is_there(name) else name
    quoted = len(bare) > 1 and bare[0] == bare[-1] and bare[0] in "\"'"
    return read_file(bare[1:-1] if quoted and not _is_there(bare) else bare)


def read_file(name: str) -> FileText:
    """Read a file that goes along with a message.

    Raises:
        RequestError: it is missing, does not read, is no text, or is too large.
    """
    if not name.strip():
        raise RequestError("The name of the file is empty.", "Name a file of text.")
    path = expanded(name)
    try:
        if not path.exists():
            raise RequestError(f"There is no file {name}.", "Name one that is there.")
        if not path.is_file():  # a pipe would never answer
            raise RequestError(f"{name} is no plain file.", "Name a file of text.")
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as problem:
        why = problem.strerror if isinstance(problem, OSError) else problem
        raise RequestError(f"{name} does not read: {why}.", "Name another file.") from None
    if len(data) > MAX_BYTES:
        raise RequestError(
            f"{name} is larger than {MAX_BYTES / 1e6:.0f} MB, more than any context holds.",
            "Send the part that matters.",
        )
    text = _decoded(name, data).replace("\r\n", "\n").rstrip("\n")
    if not text.strip():
        raise RequestError(f"{name} is empty.", "Name a file of text.")
    return FileText(name, text)


def _decoded(name: str, data: bytes) -> str:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise RequestError(
            f"{name} is no text: the model reads files in UTF-8 only.", "Name a file of text."
        )
    return text


def _is_there(name: str) -> bool:
    path = expanded(name)
    try:
        return path.exists() and not path.is_dir()
    except (OSError, ValueError):
        return False


def _is_folder(name: str) -> bool:
    try:
        return expanded(name).is_dir()
    except (OSError, ValueError):
        return False
