"""What happened in a round and in a turn: the one schema behind screens, JSON output and traces."""

from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

PHASES = ("draft", "verify", "accept", "host")
"""The four phases of a round, named so everywhere; they add up to the round."""

BYTE_PARTS = ("weights", "head", "state", "kv", "drafter")
"""Where the bytes of a round go."""

FinishReason = Literal["stop", "stop_string", "length", "context_full", "cancelled", "error"]

DraftShape = Literal["chain", "tree"]

ReadHow = Literal["prefill", "decode"]
"""How positions were computed: many at once, as a prompt, or one behind the other."""


@dataclass(frozen=True, slots=True)
class RoundRecord:
    """One decode round: draft, verify, accept, host.

    ``drafter`` is who proposed: of a routed round "mtp", "dflash2", "lookup", several joined with
    "+", or "off" where nothing was proposed. ``rows`` is the number of verified positions (1 +
    draft tokens); ``tested`` how many draft tokens the target looked at, ``accepted`` how many of
    them it agreed with. ``token_ids`` are the committed tokens (accepted + 1 unless the turn ended
    inside the round). ``ms`` holds the four ``PHASES`` in milliseconds (`engine.turn.clock` says
    what counts where), ``num_bytes`` the ``BYTE_PARTS`` the kernels had to move. ``start_s`` counts
    from the start of the turn. ``draft_ids`` are the tokens that were proposed, of rows 1, 2, ...;
    ``draft_parents`` the row that each of them follows, empty for a chain; a trace without text
    holds neither.
    """

    index: int
    drafter: str
    shape: DraftShape
    rows: int
    tested: int
    accepted: int
    token_ids: tuple[int, ...]
    context_tokens: int
    start_s: float
    ms: dict[str, float]
    num_bytes: dict[str, int]
    draft_ids: tuple[int, ...] = ()
    draft_parents: tuple[int, ...] = ()

    @property
    def round_ms(self) -> float:
        """Duration of the round: the sum of its phases."""
        return sum(self.ms.values())

    @property
    def gb_s(self) -> float:
        """Bytes the round's kernels had to move over its duration, GB/s."""
        return sum(self.num_bytes.values()) / max(self.round_ms, 1e-9) / 1e6


def share_of_read(gb_s: float, read_gb_s: float) -> float:
    """What a round moved over what the machine reads, 0 to 1; 0 where that was not measured.

    What moved faster than memory was ever read came from a cache in part, or the figure was taken
    on a busy machine: it counts as all of it.
    """
    return min(gb_s / read_gb_s, 1.0) if read_gb_s > 0 else 0.0


@dataclass(frozen=True, slots=True)
class RangeRecord:
    """How positions [start, end) were computed, so that an exact resume can repeat it."""

    start: int
    end: int
    how: ReadHow
    chunk_tokens: int = 0


@dataclass(frozen=True, slots=True)
class TurnRecord:
    """One answered request. Times in seconds, rates in tokens a second.

    ``decode_tok_s`` is (n - 1) / (time of last token - time of first token), 0 below two tokens;
    ``ttft_s`` runs from the request to the first token out of the engine. ``prompt_ids`` are the
    whole prompt's; ``reread_tokens`` of them had been read before and were read again.
    ``arithmetic`` names what decides the bits of logits, the weights too. ``token_chars`` are the
    characters that each token added to ``reasoning`` and ``text``, one behind the other; they are
    empty where they are not known. ``logits`` is filled only on demand and never serialised.
    """

    text: str
    reasoning: str
    token_ids: tuple[int, ...]
    finish_reason: FinishReason
    prompt_tokens: int
    reused_tokens: int
    ttft_s: float
    total_s: float
    prefill_tok_s: float
    decode_tok_s: float
    rounds: tuple[RoundRecord, ...]
    ranges: tuple[RangeRecord, ...]
    seed: int
    error: str = ""
    prompt_ids: tuple[int, ...] = ()
    reread_tokens: int = 0
    arithmetic: str = ""
    token_chars: tuple[int, ...] = ()
    logits: Any = field(default=None, repr=False, compare=False)

    def as_json(self) -> dict[str, Any]:
        """The record as plain JSON values, without logits; a round's ``num_bytes`` is ``bytes``."""
        data = asdict(replace(self, logits=None))
        del data["logits"]
        for one in data["rounds"]:
            one["bytes"] = one.pop("num_bytes")
        return data
