"""Acceptance of drafts by position, by drafter: counted round by round, defined here once.

A position is a place in a chain: position i was tested where the target looked at the i-th draft
token, accepted where it agreed. In a tree a position is no place in a row, so trees are left out.
"""

from dataclasses import dataclass, field
from itertools import zip_longest

from engine.records import RoundRecord


@dataclass(slots=True)
class Tally:
    """Rounds of one drafter: draft tokens tested and accepted, tokens committed."""

    num_rounds: int = 0
    num_tested: int = 0
    num_accepted: int = 0
    num_tokens: int = 0

    def add(self, one: RoundRecord) -> None:
        """Count a round."""
        self.num_rounds += 1
        self.num_tested += one.tested
        self.num_accepted += one.accepted
        self.num_tokens += len(one.token_ids)


@dataclass(slots=True)
class Positions:
    """How often the draft token at each position of a chain was tested, and accepted."""

    tested: list[int] = field(default_factory=list[int])
    accepted: list[int] = field(default_factory=list[int])

    def add(self, one: RoundRecord) -> None:
        """Count a round."""
        if one.shape == "chain":
            _count_to(self.tested, one.tested)
            _count_to(self.accepted, one.accepted)

    @property
    def shares(self) -> tuple[float, ...]:
        """Accepted over tested, by position."""
        pairs = zip_longest(self.accepted, self.tested, fillvalue=0)
        return tuple(one / all_of if all_of else 0.0 for one, all_of in pairs)


def _count_to(counts: list[int], num: int) -> None:
    """Add one to each of the first ``num`` counts."""
    counts.extend([0] * (num - len(counts)))
    for position in range(num):
        counts[position] += 1
