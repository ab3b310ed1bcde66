"""The last prompt under another profile: there, answered, and back. Knows no widget.

The same request goes to both, seed included. Where both models fit, the first one stays in memory
with its conversation; else it is read again in the end.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from app.profile_menu import Switch
from app.rates import TurnRates, rates_of
from app.stats import first_difference
from app.tui.conversation import Conversation
from app.tui.worker import EngineWorker
from app.tui.worker_events import (
    EngineOpened,
    OpenFailed,
    ReturnBegan,
    SwitchFailed,
    TurnFailed,
    WorkerEvent,
    merged,
)
from app.tui.worker_jobs import OpenEngine
from engine.errors import CancelledError, EngineError
from engine.records import TurnRecord
from engine.types import (
    EngineInfo,
    LoadProgressed,
    PromptProgressed,
    Request,
    RoundEnded,
    TextArrived,
    TurnEnded,
)

Stage = Literal["first answer", "going", "second answer", "returning", "over"]


@dataclass(slots=True)
class Side:
    """One profile's answer, as far as it is there."""

    name: str
    info: EngineInfo | None = None
    rates: TurnRates = field(default_factory=TurnRates)
    text: str = ""
    token_ids: list[int] = field(default_factory=list[int])
    record: TurnRecord | None = None

    def take(self, event: WorkerEvent) -> None:
        """Take what the engine did."""
        match event:
            case PromptProgressed():
                self.rates.prompt = event
            case TextArrived(text, "answer"):
                self.text += text
            case RoundEnded(record):
                self.rates.take_round(record)
                self.token_ids += record.token_ids
            case TurnEnded(record):
                self.finish(record)
            case _:
                pass

    def finish(self, record: TurnRecord) -> None:
        """Take a complete answer."""
        prompt = self.rates.prompt
        self.rates = rates_of(record)
        self.rates.prompt = prompt
        self.record, self.text, self.token_ids = record, record.text, [*record.token_ids]

    @property
    def has_ended(self) -> bool:
        """Whether the answer came to an end of its own."""
        return self.record is not None and self.record.finish_reason not in ("cancelled", "error")

    @property
    def gb_s(self) -> float | None:
        """Bytes of all rounds over their time."""
        seconds = sum(one.round_ms for one in self.rates.rounds) / 1e3
        num_bytes = sum(sum(one.num_bytes.values()) for one in self.rates.rounds)
        return num_bytes / seconds / 1e9 if seconds else None


class Comparison:
    """Borrows the engine from a conversation and gives it back.

    Args:
        chat: lends the engine; no answer is in progress.
        worker: runs the engine.
        request: what both answer.
        there: opens the other profile.
        back: opens the one that is loaded now, where it cannot stay.
        changed: called when there is something to show.
    """

    def __init__(
        self,
        chat: Conversation,
        worker: EngineWorker,
        request: Request,
        there: Switch,
        back: OpenEngine,
        changed: Callable[[], None],
    ) -> None:
        assert chat.info is not None
        self._chat = chat
        self._worker = worker
        self._request = request
        self._there = there
        self._back = back
        self._changed = changed
        self.first = Side(chat.info.profile, chat.info)
        self.second = Side(there.name)
        self.stage: Stage = "first answer"
        self.load: LoadProgressed | None = None
        self.problem = ""

    def begin(self, record: TurnRecord | None) -> None:
        """Begin; ``record`` is the first profile's answer to the request where it is known."""
        self._chat.lend(self.take)
        if record is not None:
            self.first.finish(record)
            self._go()
        else:
            self._worker.ask(self._request)

    def stop(self) -> bool:
        """Give up what runs and go back; False when that is happening, or has happened."""
        if self.stage in ("returning", "over"):
            return False
        self.problem = self.problem or "stopped"
        if self.stage == "going":
            self._worker.cancel_load()
        else:
            self._worker.stop()
        return True

    def take(self, events: list[WorkerEvent]) -> None:
        """Take what happened since the last paint."""
        for event in merged(events):
            if self.stage == "over":
                self._chat.take([event])
            elif self.stage in ("going", "returning"):
                self._take_load(event)
            else:
                self._take_answer(event)
        if events:
            self._changed()

    def _take_answer(self, event: WorkerEvent) -> None:
        is_first = self.stage == "first answer"
        side = self.first if is_first else self.second
        side.take(event)
        if isinstance(event, TurnFailed):
            self._fail(event.error)
        if isinstance(event, TurnEnded) and event.record.finish_reason == "error":
            self.problem = event.record.error
        if not isinstance(event, TurnEnded | TurnFailed):
            return
        if is_first and not self.problem:
            self._go()
        elif is_first:
            assert self.first.info is not None
            spelling = self._chat.seat.token_texts, self._chat.seat.text_tokens
            self._over(EngineOpened(self.first.info, *spelling))
        else:
            self.stage, self.load = "returning", None
            self._worker.go_back(self._back)

    def _go(self) -> None:
        self.stage = "going"
        beside = self._there.beside
        self._worker.switch(self._there.open, beside=beside, keeps=beside)

    def _take_load(self, event: WorkerEvent) -> None:
        match event:
            case LoadProgressed():
                self.load = event
            case ReturnBegan(error):
                self._fail(error)
                self.stage, self.load = "returning", None
            case EngineOpened(info) if self.stage == "going":
                self.second.info, self.stage = info, "second answer"
                if self.problem:  # stopped in the moment when it came
                    self.stage = "returning"
                    self._worker.go_back(self._back)
                else:
                    self._worker.ask(self._request)
            case EngineOpened():
                self._over(event)
            case SwitchFailed(error, opened):
                self._fail(error)
                self._over(opened)
            case OpenFailed(error):
                self._fail(error)
                self._over(event)
            case _:
                pass

    def _fail(self, error: EngineError) -> None:
        if not isinstance(error, CancelledError):
            self.problem = str(error)

    def _over(self, event: WorkerEvent) -> None:
        self.stage = "over"
        self._chat.give_back(event)

    @property
    def difference(self) -> int | None:
        """The first token that differs; None for the same answers."""
        return first_difference(self.first.token_ids, self.second.token_ids)


def difference_at(first: str, second: str, *, both_ended: bool) -> int | None:
    """Where the word begins by which two texts differ first; None while they may be the same.

    Args:
        first: one answer.
        second: the other one.
        both_ended: neither goes on, so that a longer one is another one.
    """
    is_part = first.startswith(second) or second.startswith(first)
    if first == second or (is_part and not both_ended):
        return None
    limit = min(len(first), len(second))
    at = next((i for i in range(limit) if first[i] != second[i]), limit)
    while at > 0 and not first[at - 1].isspace():
        at -= 1
    return at
