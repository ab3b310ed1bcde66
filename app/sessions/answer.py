"""An answer while it grows."""

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from app.sessions.entries import MessageEntry
from engine.records import TurnRecord
from engine.types import Channel

if TYPE_CHECKING:
    from app.sessions.session import Session

PART_SECONDS = 2.0
"""Most seconds of a growing answer that a crash can cost."""


class AnswerWriter:
    """An answer that grows: parts go to disk at most every two seconds, the end at once.

    It may have begun before: then what comes goes on behind what it says already.
    """

    def __init__(self, session: "Session", message_id: str) -> None:
        self.id = message_id
        self._session = session
        self.begun = session.messages[message_id]
        self._pending: dict[Channel, list[str]] = {"answer": [], "thinking": []}
        self._written_at = time.monotonic()

    def append(self, channel: Channel, text: str) -> None:
        """Take text that arrived."""
        self._pending[channel].append(text)
        if time.monotonic() - self._written_at >= PART_SECONDS:
            self._flush()

    def finish(self, record: TurnRecord) -> MessageEntry:
        """Write the whole answer with its record; call this before showing it as complete.

        The record's text wins over what was streamed: a stop string may have cut it.
        """
        is_whole = record.finish_reason in ("stop", "stop_string")
        begun = self.begun
        goes_on = bool(begun.content or begun.reasoning)
        record = replace(
            record,
            text=begun.content + record.text,
            reasoning=begun.reasoning + record.reasoning,
            token_chars=() if goes_on else record.token_chars,
        )
        entry = replace(
            self._session.messages[self.id],
            content=record.text,
            reasoning=record.reasoning,
            state="complete" if is_whole else "stopped",
            reason="" if is_whole else record.finish_reason,
            record=replace(record, logits=None),
        )
        return self._session.finish_answer(entry, record)

    def abort(self, reason: str) -> MessageEntry:
        """End the answer with what arrived, for a reason in words."""
        answer, thinking = self._take_pending()
        entry = self._session.messages[self.id]
        entry = replace(
            entry,
            content=entry.content + answer,
            reasoning=entry.reasoning + thinking,
            state="stopped",
            reason=reason or "interrupted",
            record=None,
        )
        return self._session.finish_answer(entry, None)

    def take_back(self, reason: str) -> None:
        """The answer did not begin, or did not go on: leave what was there before."""
        if self.begun.content or self.begun.reasoning:
            self._session.finish_answer(self.begun, self.begun.record)
        else:
            self.abort(reason)

    def _flush(self) -> None:
        answer, thinking = self._take_pending()
        if answer or thinking:
            self._session.grow_answer(self.id, answer, thinking)
        self._written_at = time.monotonic()

    def _take_pending(self) -> tuple[str, str]:
        answer, thinking = ("".join(self._pending[one]) for one in ("answer", "thinking"))
        self._pending = {"answer": [], "thinking": []}
        return answer, thinking
