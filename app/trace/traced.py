"""What a trace holds, as values. Seconds of a turn's parts count from the turn's start."""

from collections.abc import Mapping
from dataclasses import dataclass

from engine.errors import RequestError
from engine.records import TurnRecord
from engine.types import Channel

Fact = str | int | float | bool

CUT_OFF = "The recording ends here."
"""The error of a turn whose end was never recorded: it still runs, or its process died."""


class TraceError(RequestError):
    """A file is no trace, or there is nothing to trace."""

    title = "Trace"


@dataclass(frozen=True, slots=True)
class Head:
    """What recorded.

    Attributes:
        run: one process's recording; its turns share a clock.
        at: wall clock at second 0 of that clock, ISO 8601 in UTC.
        facts: program, machine, model and settings by dotted name.
    """

    run: str
    at: str
    facts: Mapping[str, Fact]


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of the prompt that was read; token counts as in ``PromptProgressed``."""

    start_s: float
    end_s: float
    num_tokens: int
    num_total: int
    num_reused: int


@dataclass(frozen=True, slots=True)
class Notice:
    """A sentence that the engine raised."""

    at_s: float
    text: str


@dataclass(frozen=True, slots=True)
class Piece:
    """Text that arrived; recorded with ``trace.keep_text`` only."""

    at_s: float
    channel: Channel
    text: str


@dataclass(frozen=True, slots=True)
class TracedTurn:
    """One answered request.

    ``start_s`` is on the run's clock. ``record`` has the recorded figures and rounds; its texts are
    empty and its token ids zeros, as many as there were, unless text was kept. Of a turn that was
    cut off it holds what is known, with the error ``CUT_OFF``.
    """

    head: Head
    start_s: float
    at: str
    request: Mapping[str, Fact]
    prompt: str
    chunks: tuple[Chunk, ...]
    notices: tuple[Notice, ...]
    pieces: tuple[Piece, ...]
    record: TurnRecord

    @property
    def read_gb_s(self) -> float:
        """The machine's measured read bandwidth, GB/s; 0 when the trace does not say."""
        value = self.head.facts.get("engine.read_gb_s", 0.0)
        return float(value) if isinstance(value, int | float) else 0.0

    @property
    def is_cut_off(self) -> bool:
        """Whether the end was never recorded."""
        return self.record.error == CUT_OFF
