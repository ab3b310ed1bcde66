"""What a drafter proposes for one round: a chain or a tree of tokens."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from engine.records import DraftShape
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
    def shape(self) -> DraftShape:
        """``chain`` or ``tree``."""
        return "chain" if self.plan.is_chain else "tree"

    def agreement(self, chosen: Sequence[int]) -> tuple[int, int]:
        """How far tokens that the target chose, one behind the other, follow this draft.

        Returns:
            Rows on their path that drafts follow, and drafts that were right.
        """
        rows = self._followed(chosen)
        return sum(bool(self.children(row)) for row in rows[: len(chosen)]), len(rows) - 1

    def path_along(self, token_ids: Sequence[int]) -> tuple[int, ...]:
        """The longest beginning of tokens that this draft proposes."""
        return tuple(token_ids[: len(self._followed(token_ids)) - 1])

    def path_of(self, token_ids: Sequence[int]) -> list[int]:
        """The rows that a target reads which chooses these tokens; none if it would read others."""
        rows = self._followed(token_ids)
        return rows if len(rows) == len(token_ids) else []

    def follower(self, row: int, token_id: int) -> int | None:
        """The row behind ``row`` that proposes a token; None where none does."""
        following = (one for one in self.children(row) if self.token_ids[one - 1] == token_id)
        return next(following, None)

    def _followed(self, token_ids: Sequence[int]) -> list[int]:
        """Rows from row 0 on, along tokens as far as they are proposed."""
        rows = [0]
        for token_id in token_ids:
            row = self.follower(rows[-1], token_id)
            if row is None:
                break
            rows.append(row)
        return rows

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
