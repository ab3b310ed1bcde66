"""The figures of a turn, each defined here once and counted from the engine's own records.

``now`` figures are those of the last second of decode: committed tokens a second and rounds a
second, where a round that reaches into that second counts with its part of it; milliseconds a round
and by phase, and bytes over time, of the rounds that ended in it. Mean: (n - 1) / (time
of the last token - time of the first). Peak: the highest ``now`` once a whole second of decode is
behind, and never below the mean. Accepted: draft tokens the target agreed with, over those it
tested. Knows no widget.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from app.acceptance import Positions, Tally
from engine.records import PHASES, RoundRecord, TurnRecord
from engine.types import PromptProgressed

WINDOW_S = 1.0

BIN_S = 0.1
"""Length of the bins that the course of the speed is kept in."""

SPANS_S = (3, 6, 15, 30, 60)
"""How far back the course goes: the shortest that holds the answer so far, at most a minute."""

COURSE_CELLS = 30
"""Values of a course; every span is a whole number of bins for each of them."""

MAX_BINS = round(SPANS_S[-1] / BIN_S)
"""Bins of the longest span."""


@dataclass(frozen=True, slots=True)
class Recent:
    """Rounds that ended after ``begin_s``: at most the last second of decode, up to ``end_s``."""

    rounds: Sequence[RoundRecord]
    begin_s: float
    end_s: float

    @property
    def tok_s(self) -> float:
        """Committed tokens a second."""
        return self._rate([len(one.token_ids) for one in self.rounds])

    @property
    def rounds_s(self) -> float:
        """Rounds a second."""
        return self._rate([1] * len(self.rounds))

    def _rate(self, counts: Sequence[int]) -> float:
        """Counts a second; only the first round can reach beyond the beginning."""
        first = self.rounds[0]
        inside = (_end_s(first) - self.begin_s) / max(first.round_ms / 1e3, 1e-9)
        num = sum(counts) - counts[0] * (1.0 - min(inside, 1.0))
        return num / max(self.end_s - self.begin_s, 1e-6)

    @property
    def round_ms(self) -> float:
        """Milliseconds of a round, on average; its phases add up to it."""
        return sum(one.round_ms for one in self.rounds) / len(self.rounds)

    @property
    def phase_ms(self) -> dict[str, float]:
        """Milliseconds of each phase of a round, on average."""
        num_rounds = len(self.rounds)
        return {name: sum(one.ms[name] for one in self.rounds) / num_rounds for name in PHASES}

    @property
    def round_bytes(self) -> float:
        """Bytes that a round's kernels had to move, on average."""
        return sum(sum(one.num_bytes.values()) for one in self.rounds) / len(self.rounds)

    @property
    def gb_s(self) -> float:
        """Bytes that the rounds' kernels had to move over the rounds' time, GB/s."""
        return self.round_bytes / max(self.round_ms, 1e-9) / 1e6


@dataclass(slots=True)
class Course:
    """Tokens a second over time, each round's tokens spread evenly over its duration."""

    bins: dict[int, float] = field(default_factory=dict[int, float])
    """Tokens by number of the ``BIN_S`` since the first round began; a pause has none."""

    end_s: float = 0.0

    def add(self, begin_s: float, end_s: float, num_tokens: int) -> None:
        """Take a round, in seconds since the first one began.

        A trace may say anything: of a round without end the part that is shown is kept, and none
        lies before the first.
        """
        begin_s = max(begin_s, 0.0)
        end_s = max(end_s, begin_s + 1e-6)
        self.end_s = max(self.end_s, end_s)
        per_s = num_tokens / (end_s - begin_s)
        last = int(end_s / BIN_S)
        for at in range(max(int(begin_s / BIN_S), last - MAX_BINS), last + 1):
            inside = min(end_s, (at + 1) * BIN_S) - max(begin_s, at * BIN_S)
            self.bins[at] = self.bins.get(at, 0.0) + per_s * max(inside, 0.0)

    @property
    def span_s(self) -> int:
        """How far back ``values`` go."""
        return next((one for one in SPANS_S if one >= self.end_s), SPANS_S[-1])

    @property
    def values(self) -> list[float]:
        """Tokens a second, oldest first; fewer than ``COURSE_CELLS`` while the span fills."""
        bins_a_value = round(self.span_s / BIN_S) // COURSE_CELLS
        num_bins = max(self.bins, default=-1) + 1
        first = max(-(-num_bins // bins_a_value) - COURSE_CELLS, 0) * bins_a_value
        found: list[float] = []
        for at in range(first, num_bins, bins_a_value):
            end_s = min((at + bins_a_value) * BIN_S, self.end_s)
            seconds = end_s - at * BIN_S
            if seconds > BIN_S / 4:
                tokens = sum(self.bins.get(one, 0.0) for one in range(at, at + bins_a_value))
                found.append(tokens / seconds)
        return found


@dataclass(slots=True)
class TurnRates:
    """Figures of one turn, live and then final; they stay until the next turn has its own."""

    rounds: list[RoundRecord] = field(default_factory=list[RoundRecord])
    prompt: PromptProgressed | None = None
    record: TurnRecord | None = None
    num_tokens: int = 0
    num_tested: int = 0
    num_accepted: int = 0
    last_end_s: float = 0.0
    positions: Positions = field(default_factory=Positions)
    by_drafter: dict[str, Tally] = field(default_factory=dict[str, Tally])
    course: Course = field(default_factory=Course)
    _peak_tok_s: float | None = None
    _first_recent: int = 0

    def take_round(self, one: RoundRecord) -> None:
        """Count a round that ended."""
        self.rounds.append(one)
        self.num_tokens += len(one.token_ids)
        self.num_tested += one.tested
        self.num_accepted += one.accepted
        self.positions.add(one)
        self.by_drafter.setdefault(one.drafter, Tally()).add(one)
        self.last_end_s = _end_s(one)
        begin_s = self.rounds[0].start_s
        self.course.add(one.start_s - begin_s, self.last_end_s - begin_s, len(one.token_ids))
        while _end_s(self.rounds[self._first_recent]) <= self.last_end_s - WINDOW_S:
            self._first_recent += 1
        if self.last_end_s - begin_s >= WINDOW_S:
            self._peak_tok_s = max(self._peak_tok_s or 0.0, self.now_tok_s or 0.0)

    @property
    def recent(self) -> Recent | None:
        """The rounds of the last second of decode; the newest one is always among them."""
        if not self.rounds:
            return None
        begin_s = max(self.last_end_s - WINDOW_S, self.rounds[0].start_s)
        return Recent(self.rounds[self._first_recent :], begin_s, self.last_end_s)

    @property
    def now_tok_s(self) -> float | None:
        """Committed tokens a second over the last second of decode."""
        recent = self.recent
        return recent.tok_s if recent is not None else None

    @property
    def peak_tok_s(self) -> float | None:
        """The highest ``now_tok_s`` over a whole second; below a second of decode the present.

        Never below the mean, which an answer of about a second can have between two of them.
        """
        peak = self._peak_tok_s if self._peak_tok_s is not None else self.now_tok_s
        return max(peak, self.mean_tok_s or 0.0) if peak is not None else None

    @property
    def mean_tok_s(self) -> float | None:
        """The turn's mean: the record's once it is there; a first token has no round."""
        if self.record is not None:
            return self.record.decode_tok_s or None
        if not self.rounds:
            return None
        return self.num_tokens / max(self.last_end_s - self.rounds[0].start_s, 1e-6)

    @property
    def prefill_tok_s(self) -> float | None:
        """Tokens of the prompt read a second."""
        if self.record is not None:
            return self.record.prefill_tok_s or None
        return (self.prompt.tok_s or None) if self.prompt is not None else None

    @property
    def ttft_s(self) -> float | None:
        """Seconds from the request to the first token."""
        if self.record is not None:
            return self.record.ttft_s
        return self.rounds[0].start_s if self.rounds else None

    @property
    def share_accepted(self) -> float | None:
        """Accepted over tested draft tokens."""
        return self.num_accepted / self.num_tested if self.num_tested else None

    @property
    def accepted_a_round(self) -> float | None:
        """Accepted draft tokens a round."""
        return self.num_accepted / len(self.rounds) if self.rounds else None

    @property
    def tokens_a_round(self) -> float | None:
        """Committed tokens a round."""
        return self.num_tokens / len(self.rounds) if self.rounds else None

    @property
    def total_tokens(self) -> int:
        """Tokens of the answer so far."""
        return len(self.record.token_ids) if self.record is not None else self.num_tokens

    @property
    def is_over(self) -> bool:
        """Whether the answer is complete: one of a single token has no round."""
        return self.record is not None and bool(self.record.token_ids)

    @property
    def context_tokens(self) -> int:
        """Tokens that the conversation holds: prompt and answer."""
        if self.record is not None:
            return self.record.prompt_tokens + len(self.record.token_ids)
        return (self.prompt.num_total if self.prompt else 0) + self.num_tokens


def _end_s(one: RoundRecord) -> float:
    return one.start_s + one.round_ms / 1e3


def rates_of(record: TurnRecord) -> TurnRates:
    """The figures of a turn that is over, as a resumed session has them."""
    rates = TurnRates()
    for one in record.rounds:
        rates.take_round(one)
    rates.record = record
    return rates
