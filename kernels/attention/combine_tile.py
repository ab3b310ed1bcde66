"""Choose how the merge of a verify's partial results is launched: data that changes no bit."""

from collections.abc import Mapping
from dataclasses import dataclass

STRANDS = 8
"""Chains that the chunks of a row and head are merged in: chunk c in strand c % 8."""

OCTETS = 32
"""Threads side by side, each with eight columns of a head."""


@dataclass(frozen=True)
class CombineTile:
    """One launch choice.

    Attributes:
        each: strands that a thread adds up: 1, 2 or 4.
        ahead: partial results of a strand that are asked for before their scales are known.
        min_blocks: that a multiprocessor has registers for.
    """

    each: int
    ahead: int
    min_blocks: int = 1

    @property
    def threads(self) -> int:
        """Threads of a block, which merges one row and head."""
        return STRANDS // self.each * OCTETS

    def macros(self, kv_bytes: int) -> Mapping[str, int]:
        """Return what combine.cu is compiled with."""
        return {
            "EACH": self.each,
            "AHEAD": self.ahead,
            "MIN_BLOCKS": self.min_blocks,
            "KV_BYTES": kv_bytes,
        }

    def shared_bytes(self, chunks: int) -> int:
        """Return the dynamic shared memory of a block; combine.cu lays it out."""
        scales = -(-(4 * chunks + self.threads // 32 + STRANDS) // 4) * 16
        return scales + 32 * STRANDS * OCTETS


def default(blocks: int, chunks: int, num_sms: int) -> CombineTile:
    """Return the launch choice for so many rows and heads, and chunks of a context class.

    A thread adds up one strand and asks for all of it at once, of a long context for a part, which
    is larger where blocks are few. Of few chunks it adds up two where blocks are many: then all of
    them find room at one time.
    """
    strand = -(-chunks // STRANDS)
    if blocks > 3 * num_sms and strand <= 3:
        return CombineTile(2, 2, min_blocks=3)
    ahead = min(strand, 12 if 2 * blocks <= num_sms else 4)
    return CombineTile(1, ahead, min_blocks=1 if ahead > 4 else 3)
