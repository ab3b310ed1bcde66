"""Drafters that know the answer: they fix the share of right proposals for tests and benches."""

from collections.abc import Callable, Sequence

from engine.draft.draft import Draft, Foreseen
from engine.draft.drafter import Drafter, Room

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
        foresees: the truth may be asked while a round is on its way.
    """

    def __init__(
        self,
        name: str,
        truth: Truth,
        num_ids: int,
        *,
        siblings: bool,
        foresees: bool = False,
    ) -> None:
        self.name = name
        self._truth = truth
        self._num_ids = num_ids
        self._siblings = siblings
        self._foresees = foresees
        self._num_rounds = 0
        self._draft = Draft.chain(())

    def propose(self, token_id: int, num_generated: int, num_tokens: int) -> Draft:
        """Propose the truth, or what is not the truth."""
        self._draft = self._drafted(token_id, num_generated, num_tokens)
        self._num_rounds += 1
        return self._draft

    def prepare(self, num_generated: int, room_behind: Room) -> Foreseen | None:
        """Foresee what the truth says; see ``Drafter``."""
        if not self._foresees:
            return None
        num_proposed = len(self._draft.token_ids)
        truth = self._truth(0, num_generated, num_proposed + 1)
        token_ids = truth[: len(self._draft.path_along(truth)) + 1]
        num_tokens = room_behind(len(token_ids))
        if not token_ids or num_tokens < 1:
            return None
        num_generated += len(token_ids)
        return Foreseen(token_ids, self._drafted(token_ids[-1], num_generated, num_tokens))

    def _drafted(self, token_id: int, num_generated: int, num_tokens: int) -> Draft:
        num_siblings = num_tokens // 2 if self._siblings else 0
        right = self._truth(token_id, num_generated, num_tokens - num_siblings)
        shift = SHIFTS[self.name][self._num_rounds % len(SHIFTS[self.name])]
        chain = self._shifted(right, shift)
        if not num_siblings:
            return Draft.chain(chain)
        siblings = self._shifted(right[:num_siblings], shift + 1)
        parents = (*range(len(chain)), *range(len(siblings)))
        return Draft.tree((*chain, *siblings), parents)

    def _shifted(self, ids: Sequence[int], shift: int) -> list[int]:
        return [(one + shift) % self._num_ids for one in ids] if shift else list(ids)
