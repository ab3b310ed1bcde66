"""The model's place: what is loaded or on its way there, who has it, and what to tell of loads."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from app.live import LiveSettings
from app.opening import DEMO_NOTICE
from app.profile_menu import Switch
from app.trace.record import Recorder
from app.tui.pieces import Tone
from app.tui.worker import EngineWorker
from app.tui.worker_events import (
    EngineOpened,
    InfoChanged,
    OpenFailed,
    ReturnBegan,
    SwitchFailed,
    WorkerEvent,
)
from engine.errors import CancelledError, EngineError
from engine.types import EngineInfo, LoadProgressed

Notice = tuple[str, str, Tone]
"""A title, a text and its tone."""

SeatPhase = Literal["loading", "unloaded", "idle"]


@dataclass(frozen=True, slots=True)
class Change:
    """A load that ended.

    ``is_back`` says that another model was wanted and the one before it goes on.
    """

    notices: list[Notice] = field(default_factory=list[Notice])
    is_back: bool = False


class Seat:
    """Knows the worker's loads and who has the engine; knows no message and no answer.

    Args:
        worker: loads.
        live: settings, which follow the profile that is opened.
        recorder: takes the timing of what another engine answers.
    """

    def __init__(self, worker: EngineWorker, live: LiveSettings, recorder: Recorder | None) -> None:
        self._worker = worker
        self._live = live
        self._recorder = recorder
        self.info: EngineInfo | None = None
        self.token_texts: Callable[[Sequence[int]], list[str]] = lambda ids: [""] * len(ids)
        self.text_tokens: Callable[[str], int] = lambda _: 0
        self.load: LoadProgressed | None = None
        self.switch: Switch | None = None
        """Another profile that is wanted, until it is there or was given up."""
        self.lent_to: Callable[[list[WorkerEvent]], None] | None = None
        """Who has the engine meanwhile, and gets its events."""
        self._is_loading = True

    @property
    def phase(self) -> SeatPhase:
        """What is going on while no answer is; a lent engine counts as one that is loading."""
        if self._is_loading:
            return "loading"
        return "idle" if self.info is not None else "unloaded"

    def load_again(self) -> None:
        """Try once more what did not load."""
        self._is_loading, self.load = True, None
        self._worker.start()

    def lend(self, taker: Callable[[list[WorkerEvent]], None]) -> None:
        """Let another one have the engine, until a load ends that is taken here again."""
        self.lent_to, self._is_loading, self.load = taker, True, None

    def begin_switch(self) -> bool:
        """Begin to load the profile that is wanted; False when none is."""
        if self.switch is None:
            return False
        opener = self.switch.open
        self._is_loading, self.load = True, None
        if self._recorder is not None:
            opener = self._recorder.wrap(opener)
        self._worker.switch(opener, beside=self.switch.beside)
        return True

    def take(self, event: WorkerEvent) -> Change | None:
        """Take what happened to a load; None while it goes on."""
        match event:
            case LoadProgressed():
                self.load = event
            case ReturnBegan():
                self.load = None
            case InfoChanged(info):
                self.info = info
            case EngineOpened():
                return self._opened(event)
            case OpenFailed(error):
                self._is_loading, self.info, self.switch = False, None, None
                return Change([error_notice(error)])
            case SwitchFailed():
                return self._went_back(event)
            case _:
                pass
        return None

    def _opened(self, event: EngineOpened) -> Change:
        before, info = self.info, event.info
        self._is_loading = False
        self.info, self.token_texts, self.text_tokens = info, event.token_texts, event.text_tokens
        notices: list[Notice] = []
        if self.switch is not None:
            self._live.rebase(self.switch.plan.sources)
            self.switch = None
            text = f"{info.model}, profile {info.profile}, is loaded."
            notices.append(("Profile", text, "info"))
        if info.is_demo and not (before is not None and before.is_demo):
            notices.append(("Demo model", DEMO_NOTICE, "info"))
        told: list[Notice] = [("", text, "warning") for text in info.notices]
        notices += told
        return Change(notices)

    def _went_back(self, event: SwitchFailed) -> Change:
        name = self.switch.name if self.switch is not None else "the other profile"
        self.info, self.token_texts = event.info, event.opened.token_texts
        self.text_tokens = event.opened.text_tokens
        self._is_loading, self.switch = False, None
        is_wanted = isinstance(event.error, CancelledError)
        why = "" if is_wanted else f"{_sentence(event.error)}\n"
        text = f"{why}'{name}' was not loaded: '{event.info.profile}' goes on as before."
        return Change([("Profile", text, "info" if is_wanted else "error")], is_back=True)


def error_notice(error: EngineError) -> Notice:
    """An error as a notice: what happened and how to mend it."""
    return error.title, _sentence(error), "error"


def _sentence(error: EngineError) -> str:
    return f"{error.message}\n{error.mend}".strip()
