"""What a drafter proposes for one round: a chain or a tree of tokens."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple

from kernels.common.tree import TreePlan, depth_first, plan_chain, plan_tree


class Foreseen(NamedTuple):
    """How a round may go, and what follows it then.

    Attributes:
        token_ids: that the round commits.
        draft: of the next one.
    """

    token_ids: Sequence[int]
    draft: "Draft"


@dataclass(frozen=True, slots=True)
class Draft:
    """Tokens proposed to follow the newest committed one, which is row 0 of the round.

    Attributes:
        token_ids: of rows 1, 2, ...
        plan: how all rows follow each other; one row more than there are tokens.
        drafter: who proposed them, where that differs from round to round; empty is the drafter
            that was asked.
        num_steps: passes through the checkpoint's MTP head that it cost.
        with_block: whether DFlash2 ran for it.
        num_bytes: that another drafter's kernels than the head's had to move for it.
    """

    token_ids: tuple[int, ...]
    plan: TreePlan
    drafter: str = ""
    num_steps: int = 0
    with_block: bool = False
    num_bytes: int = 0

    @staticmethod
    def chain(token_ids: Sequence[int]) -> "Draft":
        """Each token follows the one before."""
        return Draft(tuple(token_ids), _plan_chain(len(token_ids) + 1))

    @staticmethod
    def tree(token_ids: Sequence[int], parents: Sequence[int]) -> "Draft":
        """Each token follows a row before it; rows are put into walking order.

        Args:
            token_ids: of rows 1, 2, ...
            parents: row that each of them follows, before it; 0 is the newest committed token.

        Raises:
            ValueError: a row follows none before it, or there are more than 31.
        """
        order, plan = _plan_walk((-1, *parents))
        return Draft(tuple([token_ids[row - 1] for row in order[1:]]), plan)

    @property
    def shape(self) -> Literal["chain", "tree"]:
        """``chain`` or ``tree``."""
        return "chain" if self.plan.is_chain else "tree"

    def agreement(self, chosen: Sequence[int]) -> tuple[int, int]:
        """How far tokens that the target chose, one behind the other, follow this draft.

        Returns:
            Rows on their path that drafts follow, and drafts that were right.
        """
        tested = accepted = row = 0
        for token_id in chosen:
            children = self.children(row)
            following = [one for one in children if self.token_ids[one - 1] == token_id]
            tested += bool(children)
            accepted += bool(following)
            if not following:
                break
            row = following[0]
        return tested, accepted

    def path_along(self, token_ids: Sequence[int]) -> tuple[int, ...]:
        """The longest beginning of tokens that this draft proposes."""
        row = length = 0
        for token_id in token_ids:
            following = [one for one in self.children(row) if self.token_ids[one - 1] == token_id]
            if not following:
                break
            row, length = following[0], length + 1
        return tuple(token_ids[:length])

    def path_of(self, token_ids: Sequence[int]) -> list[int]:
        """The rows that a target reads which chooses these tokens; none if it would read others."""
        path = [0]
        for token_id in token_ids:
            row = path[-1]
            path += [one for one in self.children(row) if self.token_ids[one - 1] == token_id][:1]
            if path[-1] == row:
                break
        return path if len(path) == len(token_ids) else []

    def children(self, row: int) -> list[int]:
        """Rows that follow ``row`` directly, in order."""
        return [one for one, parent in enumerate(self.plan.parents) if parent == row]


# rounds repeat few shapes, and a plan costs more than finding its tokens
_plan_chain = lru_cache(plan_chain)


@lru_cache(maxsize=512)
def _plan_walk(parents: tuple[int, ...]) -> tuple[tuple[int, ...], TreePlan]:
    """Rows in walking order, and the plan of that order."""
    order = depth_first(parents)
    place = {row: at for at, row in enumerate(order)}
    return order, plan_tree([place.get(parents[row], -1) for row in order])
