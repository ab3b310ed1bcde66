"""Drafters that know the answer: they fix the share of right proposals for tests and benches."""

from collections.abc import Callable, Sequence
from itertools import cycle

from engine.draft.draft import Draft
from engine.draft.drafter import Drafter

Truth = Callable[[int, int, int], Sequence[int]]
"""(newest token, tokens generated, n) -> up to n tokens that the target will choose next."""

SHIFTS = {"replay": (0,), "wrong": (1,), "half": (0, 1)}
"""What each adds to the right ids, round after round: 0 is always right, anything else never."""


def replayed(token_ids: Sequence[int]) -> Truth:
    """The truth as an earlier run of the same turn recorded it: all its generated ids."""
    return lambda _token_id, num_generated, n: token_ids[num_generated : num_generated + n]


class ScriptedDrafter(Drafter):
    """Right in the rounds that its script says, and in no other.

    Args:
        name: one of ``SHIFTS``.
        truth: what the target will choose.
        num_ids: ids in use, 3 or more.
        siblings: beside each token of the chain stands one that is wrong, so that the round is a
            tree; the chain is then half as long.
    """

    def __init__(self, name: str, truth: Truth, num_ids: int, *, siblings: bool) -> None:
        self.name = name
        self._truth = truth
        self._num_ids = num_ids
        self._siblings = siblings
        self._shifts = cycle(SHIFTS[name])

    def propose(self, token_id: int, num_generated: int, num_tokens: int) -> Draft:
        """Propose the truth, or what is not the truth."""
        num_siblings = num_tokens // 2 if self._siblings else 0
        right = self._truth(token_id, num_generated, num_tokens - num_siblings)
        shift = next(self._shifts)
        chain = self._shifted(right, shift)
        if not num_siblings:
            return Draft.chain(chain)
        siblings = self._shifted(right[:num_siblings], shift + 1)
        parents = (*range(len(chain)), *range(len(siblings)))
        return Draft.tree((*chain, *siblings), parents)

    def _shifted(self, ids: Sequence[int], shift: int) -> list[int]:
        return [(one + shift) % self._num_ids for one in ids] if shift else list(ids)
