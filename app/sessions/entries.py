"""What a session holds: messages that form a tree. Knows no file and no line of one."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from app.visible import visible_line
from engine.records import TurnRecord
from engine.types import Role

ROOT = ""
"""The parent of a conversation's first message; siblings of that message share it."""

TITLE_CELLS = 60

State = Literal["complete", "writing", "stopped"]


@dataclass(frozen=True, slots=True)
class FileSpan:
    """Characters [start, end) of a message, which a file brought; ``name`` as it was typed."""

    name: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class MessageEntry:
    """One message of the tree.

    ``state`` is ``stopped`` for an answer that did not reach its own end, for the reason in
    ``reason``; ``record`` is None for messages of the person and for answers cut off by a crash.
    ``model`` names who answered; empty where nobody wrote it down. ``made_with`` are the settings
    that an answer was made with, by full name, without those at their default; None where nobody
    wrote them down. ``files`` went along with a message of the person; they stand at its end.
    """

    id: str
    parent: str
    role: Role
    content: str
    reasoning: str = ""
    at: str = ""
    state: State = "complete"
    reason: str = ""
    record: TurnRecord | None = None
    model: str = ""
    made_with: Mapping[str, str] | None = field(default=None, hash=False)
    files: tuple[FileSpan, ...] = ()

    @property
    def words(self) -> str:
        """What was written, without the files below it."""
        return self.content[: self.files[0].start].rstrip() if self.files else self.content

    @property
    def ended_itself(self) -> bool:
        """Whether the model ended the answer: then there is nothing to go on with."""
        return self.record is not None and self.record.finish_reason == "stop"


@dataclass(slots=True)
class Contents:
    """A session as data; ``app.sessions.lines`` rebuilds it line by line."""

    id: str
    created: str = ""
    updated: str = ""
    model: str = ""
    profile: str = ""
    system: str = ""
    given_title: str = ""
    settings: dict[str, str] = field(default_factory=dict[str, str])
    leaf: str = ROOT
    messages: dict[str, MessageEntry] = field(default_factory=dict[str, MessageEntry])
    newer_format: str = ""
    num_foreign: int = 0

    @property
    def title(self) -> str:
        """The given title, else the beginning of the first message, fit for one line."""
        path = self.path_messages() or [*self.messages.values()]
        first = path[0].words if path else ""
        return visible_line(self.given_title or first, TITLE_CELLS) or "(empty)"

    def path_messages(self) -> list[MessageEntry]:
        """The current branch, first message first."""
        path: list[MessageEntry] = []
        at = self.leaf
        while at in self.messages and len(path) <= len(self.messages):
            path.append(self.messages[at])
            at = self.messages[at].parent
        return path[::-1]

    def ids_before(self, entry: MessageEntry) -> tuple[int, ...]:
        """Token ids of the conversation up to the last recorded answer above a message."""
        at, seen = entry.parent, 0
        while (one := self.messages.get(at)) is not None and seen <= len(self.messages):
            if one.record is not None and one.record.prompt_ids:
                return (*one.record.prompt_ids, *one.record.token_ids)
            at, seen = one.parent, seen + 1
        return ()

    def touch(self, line: Mapping[str, Any]) -> None:
        """Take the time of a line, but of a title's: a conversation that is renamed is as old."""
        if line.get("type") != "title":
            self.updated = str(line.get("at") or self.updated)

    def put(self, entry: MessageEntry) -> None:
        """Add or replace a message and make it the end of the current branch."""
        self.messages[entry.id] = entry
        self.leaf = entry.id

    def mend(self) -> tuple[int, int]:
        """Mark answers that a crash cut off as stopped, and give every message a place.

        A message whose parent does not stand before it, for a line is damaged, follows the message
        before it: so no walk up or down the tree goes round.

        Returns:
            How many answers were cut off, and how many messages had lost their place.
        """
        num_unfinished = num_moved = 0
        before, seen = ROOT, {ROOT}
        for one in list(self.messages.values()):
            mended = one
            if one.parent not in seen:
                num_moved += 1
                mended = replace(mended, parent=before)
            if one.state == "writing":
                num_unfinished += 1
                mended = replace(mended, state="stopped", reason="interrupted")
            self.messages[one.id] = mended
            before = one.id
            seen.add(before)
        return num_unfinished, num_moved
