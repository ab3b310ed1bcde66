"""Drafters that know the answer: they fix the share of right proposals for tests and benches."""

from collections.abc import Callable, Sequence

Truth = Callable[[int, int, int], Sequence[int]]
"""(newest token, tokens generated, n) -> up to n tokens that the target will choose next."""


def replayed(token_ids: Sequence[int]) -> Truth:
    """The truth as an earlier run of the same turn recorded it: all its generated ids."""
    return lambda _token_id, num_generated, n: token_ids[num_generated : num_generated + n]


class ReplayDrafter:
    """Always right, as long as its truth is."""

    name = "replay"
    uses_mtp = False

    def __init__(self, truth: Truth) -> None:
        self._truth = truth

    def propose(self, token_id: int, num_generated: int, num_tokens: int) -> list[int]:
        """Propose the truth."""
        return list(self._truth(token_id, num_generated, num_tokens))


class WrongDrafter:
    """Never right: the id after each right one.

    Args:
        truth: what the target will choose.
        num_ids: ids in use.
    """

    name = "wrong"
    uses_mtp = False

    def __init__(self, truth: Truth, num_ids: int) -> None:
        self._truth = truth
        self._num_ids = num_ids

    def propose(self, token_id: int, num_generated: int, num_tokens: int) -> list[int]:
        """Propose what is not the truth."""
        right = self._truth(token_id, num_generated, num_tokens)
        return [(one + 1) % self._num_ids for one in right]


class HalfDrafter:
    """Right in every other round, beginning with the first."""

    name = "half"
    uses_mtp = False

    def __init__(self, truth: Truth, num_ids: int) -> None:
        self._right = ReplayDrafter(truth)
        self._wrong = WrongDrafter(truth, num_ids)
        self._num_rounds = 0

    def propose(self, token_id: int, num_generated: int, num_tokens: int) -> list[int]:
        """Propose the truth, or what is not the truth, in turn."""
        drafter = self._wrong if self._num_rounds % 2 else self._right
        self._num_rounds += 1
        return drafter.propose(token_id, num_generated, num_tokens)
