"""Where the time of a trace went, in figures; the definitions are those of the screen.

Rates are tokens a second; a turn's decode rate is (n - 1) / (time of the last token - time of the
first). GB/s are the bytes that the rounds' kernels had to move over the rounds' time. Knows no
file and no screen.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from app.acceptance import Positions
from app.trace.traced import TracedTurn
from engine.records import PHASES, RoundRecord, TurnRecord, share_of_read


@dataclass(frozen=True, slots=True)
class Figures:
    """One turn, or several as one; milliseconds and bytes are sums.

    ``ttft_s`` of several turns is their mean. ``other_ms`` is what is left of ``total_ms`` beside
    the wait for the first token and the rounds: the engine waits there for whoever takes its
    events. ``round_ms_p50`` and ``round_ms_p95`` are percentiles of single rounds.
    """

    num_turns: int
    prompt_tokens: int
    reused_tokens: int
    num_tokens: int
    ttft_s: float
    prefill_tok_s: float
    decode_tok_s: float
    num_rounds: int
    tested: int
    accepted: int
    tokens_a_round: float
    accepted_by_position: tuple[float, ...]
    total_ms: float
    first_ms: float
    phase_ms: dict[str, float]
    other_ms: float
    round_ms_p50: float
    round_ms_p95: float
    num_bytes: int
    gb_s: float
    read_gb_s: float

    @property
    def share_accepted(self) -> float:
        """Accepted over tested draft tokens."""
        return _ratio(self.accepted, self.tested)

    @property
    def accepted_a_round(self) -> float:
        """Draft tokens that the model agreed with, a round."""
        return _ratio(self.accepted, self.num_rounds)

    @property
    def share_of_read(self) -> float:
        """GB/s over the machine's measured read bandwidth; 0 when that was not recorded."""
        return share_of_read(self.gb_s, self.read_gb_s)

    def share(self, milliseconds: float) -> float:
        """A part of the whole time."""
        return _ratio(milliseconds, self.total_ms)


@dataclass(slots=True)
class Summary:
    """A trace: its turns in order, with what they add up to. Add turns with `add`."""

    turns: list[Figures] = field(default_factory=list[Figures])
    ends: list[str] = field(default_factory=list[str])
    facts: dict[str, object] = field(default_factory=dict[str, object])
    at: str = ""
    _sums: "_Sums" = field(default_factory=lambda: _Sums())  # noqa: PLW0108  it is defined below

    def add(self, turn: TracedTurn) -> None:
        """Count a turn; facts are those of the first one."""
        if not self.turns:
            self.facts, self.at = dict(turn.head.facts), turn.head.at
        sums = _Sums()
        for one in (sums, self._sums):
            one.add(turn.record, turn.read_gb_s)
        self.turns.append(sums.figures())
        self.ends.append("cut off" if turn.is_cut_off else turn.record.finish_reason)

    @property
    def total(self) -> Figures:
        """All turns as one."""
        return self._sums.figures()


class _Sums:
    """What adds up; rates are formed at the end, from sums."""

    def __init__(self) -> None:
        self.num_turns = self.prompt_tokens = self.reused_tokens = self.num_tokens = 0
        self.first_s = self.total_s = self.prefill_s = 0.0
        self.read_tokens = self.decoded_tokens = 0
        self.decode_s = 0.0
        self.num_rounds = self.tested = self.accepted = self.committed = self.num_bytes = 0
        self.positions = Positions()
        self.phase_ms: dict[str, float] = dict.fromkeys(PHASES, 0.0)
        self.round_ms: list[float] = []
        self.read_gb_s = 0.0

    def add(self, record: TurnRecord, read_gb_s: float) -> None:
        self.num_turns += 1
        self.prompt_tokens += record.prompt_tokens
        self.reused_tokens += record.reused_tokens
        self.num_tokens += len(record.token_ids)
        self.first_s += record.ttft_s
        self.total_s += record.total_s
        self.read_gb_s = read_gb_s
        if record.prefill_tok_s:
            num_read = record.prompt_tokens - record.reused_tokens
            self.read_tokens += num_read
            self.prefill_s += num_read / record.prefill_tok_s
        if record.decode_tok_s:
            self.decoded_tokens += len(record.token_ids) - 1
            self.decode_s += (len(record.token_ids) - 1) / record.decode_tok_s
        for one in record.rounds:
            self._add_round(one)

    def _add_round(self, one: RoundRecord) -> None:
        self.num_rounds += 1
        self.tested += one.tested
        self.accepted += one.accepted
        self.committed += len(one.token_ids)
        self.num_bytes += sum(one.num_bytes.values())
        self.round_ms.append(one.round_ms)
        for name in PHASES:
            self.phase_ms[name] += one.ms[name]
        self.positions.add(one)

    def figures(self) -> Figures:
        rounds_ms = sum(self.phase_ms.values())
        total_ms, first_ms = self.total_s * 1e3, self.first_s * 1e3
        return Figures(
            num_turns=self.num_turns,
            prompt_tokens=self.prompt_tokens,
            reused_tokens=self.reused_tokens,
            num_tokens=self.num_tokens,
            ttft_s=_ratio(self.first_s, self.num_turns),
            prefill_tok_s=_ratio(self.read_tokens, self.prefill_s),
            decode_tok_s=_ratio(self.decoded_tokens, self.decode_s),
            num_rounds=self.num_rounds,
            tested=self.tested,
            accepted=self.accepted,
            tokens_a_round=_ratio(self.committed, self.num_rounds),
            accepted_by_position=self.positions.shares,
            total_ms=total_ms,
            first_ms=first_ms,
            phase_ms=dict(self.phase_ms),
            other_ms=max(total_ms - first_ms - rounds_ms, 0.0),
            round_ms_p50=_percentile(self.round_ms, 50),
            round_ms_p95=_percentile(self.round_ms, 95),
            num_bytes=self.num_bytes,
            gb_s=_ratio(self.num_bytes / 1e6, rounds_ms),
            read_gb_s=self.read_gb_s,
        )


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _percentile(values: Sequence[float], percent: int) -> float:
    """The inclusive percentile, 1 to 99."""
    if len(values) < 2:
        return values[0] if values else 0.0
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]
