"""Points of a conversation to come back to, as many as their memory holds."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from engine.model.state import Snapshot


@dataclass(frozen=True, slots=True)
class Mark:
    """A point to come back to: the state there, and the hidden row that ends it."""

    snapshot: Snapshot
    last_hidden: torch.Tensor

    @property
    def length(self) -> int:
        """Tokens read up to here."""
        return self.snapshot.length


class Marks:
    """The points of one conversation, the shortest first.

    A point saves the tokens between the one before it and itself from being read again, and the
    older it is the less likely anybody returns to it. So the one that goes first, when room is
    needed, is that with the fewest tokens for its age; the newest stays.

    Args:
        most: points held at once.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._held: list[Mark] = []

    def __iter__(self) -> Iterator[Mark]:
        return iter(self._held)

    def __len__(self) -> int:
        return len(self._held)

    def make_room(self) -> bool:
        """Let go of points until another fits; whether one does."""
        while self._held and len(self._held) >= self._most:
            del self._held[self._least_useful()]
        return self._most > 0

    def add(self, mark: Mark) -> None:
        """Hold a point behind all others."""
        self._held.append(mark)

    def nearest(self, num_tokens: int) -> Mark | None:
        """The longest point that stands for the first ``num_tokens`` or fewer of them."""
        found = [one for one in self._held if one.length <= num_tokens]
        return found[-1] if found else None

    def forget_beyond(self, num_tokens: int) -> None:
        """Let go of the points behind the first ``num_tokens``: another text follows them."""
        self._held = [one for one in self._held if one.length <= num_tokens]

    def _least_useful(self) -> int:
        """Index of the point that goes first."""
        if len(self._held) == 1:
            return 0
        before = [0, *(one.length for one in self._held)]
        older = range(len(self._held) - 1)
        age = len(self._held)
        return min(older, key=lambda at: (self._held[at].length - before[at]) / (age - at))
