"""One conversation: its tree of messages in memory, every change on disk before it counts.

Nothing here raises because of a disk: what cannot be written stays in memory, is tried again with
every later line, and is told in `Session.warnings`. One thread uses a session.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from app.sessions.answer import AnswerWriter
from app.sessions.entries import ROOT, Contents, FileSpan, MessageEntry
from app.sessions.lines import message_line, settings_line, title_line
from app.sessions.logfile import LogFile
from app.sessions.session_draft import SessionDraft
from app.sessions.stamps import new_id, now
from app.sessions.tree import Tree
from app.sessions.turns import pack
from app.sessions.writing import SessionWriter
from engine.errors import RequestError
from engine.records import TurnRecord
from engine.types import Message, Role

TRACE_SUFFIX = ".trace"
"""Ending of the timing trace that lies beside a session's file."""


class Session:
    """A conversation that is written as it grows; made by `SessionStore`.

    Args:
        contents: what was read, or a fresh head.
        log: the file behind it; locked, unless the session is a copy or read only.
        draft: what is typed and not sent.
        is_new: the file holds nothing yet, so the first line writes everything.
    """

    def __init__(
        self, contents: Contents, log: LogFile, draft: SessionDraft, *, is_new: bool
    ) -> None:
        self._contents = contents
        self._writer = SessionWriter(log, is_new=is_new)
        self._draft = draft
        self.exported_leaf: str | None = None
        """The last message when the whole of it was last written to a file elsewhere."""

    @property
    def id(self) -> str:
        """Name of the session, and of its file."""
        return self._contents.id

    @property
    def path(self) -> Path:
        """The file; it is made with the first message."""
        return self._writer.path

    @property
    def trace_path(self) -> Path:
        """Where the timing of its answers is recorded."""
        return self.path.with_suffix(TRACE_SUFFIX)

    @property
    def title(self) -> str:
        """One line: the given title, else the beginning of the first message."""
        return self._contents.title

    @property
    def has_title(self) -> bool:
        """Whether the title says something: one was given, or the branch has a first message."""
        return bool(self._contents.given_title) or self.leaf != ROOT

    @property
    def created(self) -> str:
        """When the session began, ISO 8601 in UTC."""
        return self._contents.created

    @property
    def updated(self) -> str:
        """When its last line was written, ISO 8601 in UTC."""
        return self._contents.updated

    @property
    def model(self) -> str:
        """The model it was begun with."""
        return self._contents.model

    @property
    def profile(self) -> str:
        """The profile it was begun with."""
        return self._contents.profile

    @property
    def system(self) -> str:
        """The system prompt; empty for none."""
        return self._contents.system

    @property
    def settings(self) -> Mapping[str, str]:
        """What was set for this conversation alone: text by full setting name."""
        return self._contents.settings

    @property
    def leaf(self) -> str:
        """The last message of the current branch; `ROOT` before the first one."""
        return self._contents.leaf

    @property
    def messages(self) -> Mapping[str, MessageEntry]:
        """Every message of every branch by id, in the order they were made."""
        return self._contents.messages

    @property
    def is_saved(self) -> bool:
        """Whether everything is on disk, or the person asked for no disk."""
        return self._writer.is_whole

    @property
    def disk_problem(self) -> str:
        """Why the last write failed; empty when it did not."""
        return self._writer.problem

    @property
    def warnings(self) -> list[str]:
        """Sentences a person should see: damaged lines, a copy, a full disk. Only ever grows."""
        return self._writer.warnings

    def expect_kept(self) -> None:
        """Look whether the conversation may be left.

        Raises:
            RequestError: the disk has refused it, and no export holds it as it is now.
        """
        if not self.is_saved and self.exported_leaf != self.leaf:
            raise RequestError(
                f"This conversation is not on disk ({self.disk_problem}) and would be lost.",
                "Write it elsewhere with /export FILE, or leave with /quit.",
            )

    def path_messages(self) -> list[MessageEntry]:
        """The current branch, first message first."""
        return self._contents.path_messages()

    def tree(self) -> Tree:
        """The branches as they are now."""
        return Tree(self.messages)

    def request_messages(self) -> tuple[Message, ...]:
        """The current branch as the engine takes it: system prompt first, empty answers left out.

        Reasoning of earlier turns goes along; the chat template decides what it keeps. So does what
        is recorded of an answer, from which an engine of another process can compute it again.
        """
        head = (Message("system", self.system),) if self.system else ()
        path = (
            Message(one.role, one.content, one.reasoning, one.record)
            for one in self.path_messages()
        )
        return head + tuple(one for one in path if one.content or one.reasoning)

    def add_message(
        self,
        role: Role,
        content: str,
        reasoning: str = "",
        parent: str | None = None,
        *,
        files: tuple[FileSpan, ...] = (),
    ) -> MessageEntry:
        """Add a message below ``parent`` (None: the end of the current branch) and go there.

        A parent that has children already begins a new branch; `ROOT` begins a new conversation
        beside the first one. ``files`` are those of its content.
        """
        entry = MessageEntry(
            new_id(), self._parent(parent), role, content, reasoning, now(), files=files
        )
        self._contents.put(entry)
        self._write(message_line(entry, ()))
        return entry

    def start_answer(
        self,
        parent: str | None = None,
        *,
        model: str = "",
        made_with: Mapping[str, str] | None = None,
    ) -> AnswerWriter:
        """Begin an answer below ``parent`` (None: the end of the current branch) and go there.

        ``model`` is the name it stands under from now on, whatever is loaded later, and
        ``made_with`` the settings that it is made with.
        """
        entry = MessageEntry(new_id(), self._parent(parent), "assistant", "", "", now(), "writing")
        entry = replace(entry, model=model, made_with=made_with)
        self._contents.put(entry)
        start = {"id": entry.id, "parent": entry.parent, "at": entry.at, "model": model}
        known = {} if made_with is None else {"with": dict(made_with)}
        self._write({"type": "start", **start, **known})
        return AnswerWriter(self, entry.id)

    def go_on(self) -> AnswerWriter:
        """Go on with the answer at the end of the current branch.

        Raises:
            KeyError: no answer stands there.
        """
        entry = self.messages[self.leaf]
        if entry.role != "assistant":
            raise KeyError(self.leaf)
        return AnswerWriter(self, entry.id)

    def select(self, leaf: str) -> None:
        """Make ``leaf`` the end of the current branch; `ROOT` is before the first message.

        Raises:
            KeyError: there is no such message.
        """
        if leaf != ROOT and leaf not in self.messages:
            raise KeyError(leaf)
        if leaf != self.leaf:
            self._contents.leaf = leaf
            self._write({"type": "branch", "id": leaf, "at": now()})

    def belong_to(self, model: str, profile: str) -> None:
        """Name the model that it is begun with; one that is on disk keeps what it names."""
        if not self._writer.has_begun:
            self._contents.model, self._contents.profile = model, profile

    def set_system(self, text: str) -> None:
        """Change the system prompt from the next turn on."""
        self._contents.system = text
        self._write_unless_empty({"type": "system", "text": text, "at": now()})

    def set_settings(self, values: Mapping[str, str]) -> None:
        """Keep what is set for this conversation from now on."""
        if values != self.settings:
            self._contents.settings = dict(values)
            self._write_unless_empty(settings_line(self._contents, now()))

    def rename(self, title: str) -> None:
        """Give the session a title of its own; empty takes the first message again."""
        self._contents.given_title = title
        self._write_unless_empty(title_line(title, now()))

    @property
    def draft(self) -> str:
        """What was typed and not sent; kept over a crash."""
        return self._draft.read(self.id, has_begun=bool(self.messages))

    @draft.setter
    def draft(self, text: str) -> None:
        if problem := self._draft.write(text, self.id, has_begun=bool(self.messages)):
            self._writer.warn(problem)

    def close(self) -> None:
        """Let go of the file; the session stays readable."""
        self._writer.close()

    def finish_answer(self, entry: MessageEntry, record: TurnRecord | None) -> MessageEntry:
        """Replace an answer by its final form and write that; `AnswerWriter` calls this."""
        self._contents.messages[entry.id] = entry
        self._write(
            {
                "type": "end", "id": entry.id, "at": now(), "content": entry.content,
                "reasoning": entry.reasoning, "reason": entry.reason,
                "record": pack(record, self._contents.ids_before(entry)) if record else None,
            }
        )  # fmt: skip
        return entry

    def grow_answer(self, message_id: str, answer: str, thinking: str) -> None:
        """Add text to a growing answer and write it; `AnswerWriter` calls this."""
        entry = self.messages[message_id]
        self._contents.messages[message_id] = replace(
            entry, content=entry.content + answer, reasoning=entry.reasoning + thinking
        )
        part = {"answer": answer, "thinking": thinking}
        self._write({"type": "part", "id": message_id, "at": now(), **part})

    def leave_original(self, path: Path, notice: str) -> None:
        """Go on as a copy at ``path``, made with the next line; the original stays as it is."""
        self._contents.id = path.stem
        self._writer.begin_again(path)
        self.warnings.append(notice)

    def _parent(self, parent: str | None) -> str:
        if parent is None:
            return self.leaf
        if parent != ROOT and parent not in self.messages:
            raise KeyError(parent)
        return parent

    def _write(self, line: dict[str, Any]) -> None:
        self._writer.write(self._contents, line)

    def _write_unless_empty(self, line: dict[str, Any]) -> None:
        # Before the first message there is no file, and its head will hold this.
        if self._writer.has_begun:
            self._write(line)
