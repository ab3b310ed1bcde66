"""What the instruments show at one moment, and in which tones."""

from dataclasses import dataclass
from functools import lru_cache

from rich.style import Style

from app.rates import TurnRates
from app.tui.theme import Look
from engine.machine.load import MachineLoad
from engine.records import share_of_read
from engine.types import EngineInfo, LoadProgressed

CONTEXT_WARNING, CONTEXT_ALARM = 0.8, 0.95
"""Shares of the context from which on it is shown as a warning, and as an alarm."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One moment.

    ``phase`` is the conversation's; ``lag_ms`` and ``share`` are the screen's own cost.
    """

    phase: str
    rates: TurnRates | None = None
    info: EngineInfo | None = None
    loading: LoadProgressed | None = None
    load: MachineLoad | None = None
    lag_ms: float | None = None
    share: float | None = None

    @property
    def is_live(self) -> bool:
        """Whether the figures are those of an answer in progress."""
        return self.phase in ("reading", "thinking", "writing", "stopping")

    @property
    def read_gb_s(self) -> float:
        """The machine's measured read bandwidth, GB/s; 0 until the model is open."""
        return self.info.read_gb_s if self.info is not None else 0.0

    @property
    def share_of_read(self) -> float | None:
        """Bandwidth that the recent rounds used over the machine's measured one."""
        recent = self.rates.recent if self.rates is not None else None
        if recent is None or not self.read_gb_s:
            return None
        return share_of_read(recent.gb_s, self.read_gb_s)

    @property
    def share_of_context(self) -> float:
        """Tokens held over the most that can be."""
        if self.info is None or self.rates is None:
            return 0.0
        return self.rates.context_tokens / max(self.info.max_context_tokens, 1)


@dataclass(frozen=True, slots=True)
class Tones:
    """Styles by what they are for; those of an answer that is over are dimmed."""

    title: Style
    label: Style
    text: Style
    strong: Style
    speed: Style
    accepted: Style
    bandwidth: Style
    rest: Style
    warning: Style
    alarm: Style
    phases: tuple[Style, ...]

    def of_context(self, share: float) -> Style:
        """The style of a share of the context."""
        if share >= CONTEXT_ALARM:
            return self.alarm
        return self.warning if share >= CONTEXT_WARNING else self.bandwidth


@lru_cache(16)
def tones_of(look: Look, *, live: bool) -> Tones:
    """The tones of a look."""
    seen = Style() if live else Style(dim=True)

    def of(style: Style, *, bold: bool = False) -> Style:
        return Style(color=style.color, dim=style.dim, bold=bold or None) + seen

    return Tones(
        title=of(look.heading, bold=live),
        label=look.dim,
        text=of(look.text),
        strong=of(look.assistant, bold=live),
        speed=of(look.assistant),
        accepted=of(look.good),
        bandwidth=of(look.user),
        rest=look.faint,
        warning=of(look.notice),
        alarm=of(look.error, bold=True),
        phases=tuple(of(one) for one in (look.accent, look.user, look.good, look.notice)),
    )
