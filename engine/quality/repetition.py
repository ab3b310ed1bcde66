"""Whether a text goes round in circles: figures of a generated answer's token ids.

A damaged model may predict a given text well and still repeat itself to the end when it writes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

NGRAMS = (1, 2, 4)

MAX_PERIOD = 256
"""Longest passage whose immediate repetition is looked for."""

LOOP_TOKENS = 64
"""From here on a loop is no figure of speech, no table and no list."""


@dataclass(frozen=True, slots=True)
class Repetition:
    """Figures of one answer.

    Attributes:
        num_tokens: its length.
        distinct: different n-grams over all n-grams, for each of ``NGRAMS``; 1 where there is none.
        loop_tokens: the longest stretch that is one passage said at least twice in a row.
        loop_period: tokens of that passage.
    """

    num_tokens: int
    distinct: dict[int, float]
    loop_tokens: int
    loop_period: int

    @property
    def is_looping(self) -> bool:
        """Whether a loop is as long as none that a sound model writes."""
        return self.loop_tokens >= LOOP_TOKENS


def repetition_of(ids: Sequence[int]) -> Repetition:
    """Count repeated n-grams and find the longest loop."""
    distinct: dict[int, float] = {}
    for n in NGRAMS:
        grams = [tuple(ids[start : start + n]) for start in range(len(ids) - n + 1)]
        distinct[n] = len(set(grams)) / len(grams) if grams else 1.0
    loop_tokens = loop_period = 0
    for period in range(1, min(MAX_PERIOD, len(ids) // 2) + 1):
        same = _longest_run(ids, period)
        # a run of `period` equal pairs is the passage said a second time
        if same >= period and same + period > loop_tokens:
            loop_tokens, loop_period = same + period, period
    return Repetition(len(ids), distinct, loop_tokens, loop_period)


def _longest_run(ids: Sequence[int], period: int) -> int:
    """Most consecutive tokens that are those ``period`` before them."""
    longest = run = 0
    for one, before in zip(ids[period:], ids, strict=False):
        run = run + 1 if one == before else 0
        longest = max(longest, run)
    return longest
