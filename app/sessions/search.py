"""Searching the text of conversations: words in any case, and a line that shows where."""

import json
import re
from collections.abc import Iterable
from pathlib import Path

from app.sessions.entries import MessageEntry
from app.sessions.lines import read_contents
from app.sessions.logfile import MAX_SESSION_BYTES, read_lines
from app.visible import visible_line
from engine.own_file import read_own

CELLS_BEFORE, LINE_CELLS = 24, 76


def words_of(search: str) -> list[str]:
    """The words of a search; a text fits when it holds every one of them."""
    return search.casefold().split()


def excerpt(text: str, words: list[str], width: int = LINE_CELLS) -> str:
    """The surroundings of the first word in ``text`` as one line; empty when it is not there."""
    places = [match.start() for word in words[:1]
              if (match := re.search(re.escape(word), text, re.IGNORECASE))]  # fmt: skip
    if not places:
        return ""
    begin = max(places[0] - CELLS_BEFORE, 0)
    if begin:
        blank = text.find(" ", begin, places[0])
        begin = blank + 1 if blank >= 0 else begin
    return visible_line(("…" if begin else "") + text[begin : begin + 4 * width], width)


def find_in(path: Iterable[MessageEntry], search: str) -> list[tuple[int, MessageEntry, str]]:
    """Messages that hold every word: their number from 1, themselves, and where it is."""
    words = words_of(search)
    found: list[tuple[int, MessageEntry, str]] = []
    for number, entry in enumerate(path, 1):
        text = f"{entry.content}\n{entry.reasoning}"
        folded = text.casefold()
        if words and all(word in folded for word in words):
            found.append((number, entry, excerpt(text, words)))
    return found


def excerpt_of_file(path: Path, search: str) -> str:
    """Where a session's file holds every word of a search, as one line; empty when it does not.

    Words may stand in different messages. Most files are passed over without being parsed.
    """
    words = words_of(search)
    try:
        data = read_own(path, MAX_SESSION_BYTES)
    except OSError:
        return ""
    folded = data.decode("utf-8", "replace").casefold()
    if not words or not all(_as_written(word) in folded for word in words):
        return ""
    messages = read_contents(path.stem, read_lines(data)[0]).messages.values()
    texts = [text for one in messages for text in (one.content, one.reasoning)]
    said = "\n".join(texts).casefold()
    if not all(word in said for word in words):
        return ""
    return next((found for text in texts if (found := excerpt(text, words))), "")


def _as_written(word: str) -> str:
    """A word as it stands in a line of JSON."""
    return json.dumps(word, ensure_ascii=False)[1:-1].casefold()
