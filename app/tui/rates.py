"""What the status line says about a turn, counted from the engine's own records.

Tokens a second now: committed tokens of the last second of decode. Mean: (n - 1) / (time of the
last token - time of the first). Accepted: draft tokens the target agreed with, over those it
tested. Knows no widget.
"""

from dataclasses import dataclass, field

from engine.records import RoundRecord, TurnRecord
from engine.types import PromptProgressed

WINDOW_S = 1.0


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

    def take_round(self, one: RoundRecord) -> None:
        """Count a round that ended."""
        self.rounds.append(one)
        self.num_tokens += len(one.token_ids)
        self.num_tested += one.tested
        self.num_accepted += one.accepted
        self.last_end_s = one.start_s + one.round_ms / 1e3

    @property
    def now_tok_s(self) -> float | None:
        """Committed tokens a second over the last second of decode."""
        if not self.rounds:
            return None
        begin = max(self.last_end_s - WINDOW_S, self.rounds[0].start_s)
        tokens = 0
        for one in reversed(self.rounds):
            if one.start_s + one.round_ms / 1e3 <= begin:
                break
            tokens += len(one.token_ids)
        return tokens / max(self.last_end_s - begin, 1e-6)

    @property
    def mean_tok_s(self) -> float | None:
        """The turn's mean: the record's once it is there; a first token has no round."""
        if self.record is not None:
            return self.record.decode_tok_s or None
        if not self.rounds:
            return None
        return self.num_tokens / max(self.last_end_s - self.rounds[0].start_s, 1e-6)

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
    def tokens_a_round(self) -> float | None:
        """Committed tokens a round."""
        return self.num_tokens / len(self.rounds) if self.rounds else None

    @property
    def total_tokens(self) -> int:
        """Tokens of the answer so far."""
        return len(self.record.token_ids) if self.record is not None else self.num_tokens

    @property
    def context_tokens(self) -> int:
        """Tokens that the conversation holds: prompt and answer."""
        if self.record is not None:
            return self.record.prompt_tokens + len(self.record.token_ids)
        return (self.prompt.num_total if self.prompt else 0) + self.num_tokens


def rates_of(record: TurnRecord) -> TurnRates:
    """The figures of a turn that is over, as a resumed session has them."""
    rates = TurnRates()
    for one in record.rounds:
        rates.take_round(one)
    rates.record = record
    return rates
