"""Order the rows of a verify as a tree, and hold what kernels need to walk it.

Row 0 is the newest committed token; every other row is a draft of what follows its parent row. A
chain is the tree where each row follows the one before, so one kernel body serves both.

Rows stand in depth-first order, a row's largest subtree last. A walk then goes on from the row
before, or from the state it kept at a branch, and never keeps more than `MAX_KEPT` states: keeping
one more needs a subtree at least twice as large, and there are 32 rows.
"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from kernels.common.round import MAX_ROWS
from kernels.common.staged import StagedTable

MAX_KEPT = 5
"""States that a walk keeps at once: log2 of `MAX_ROWS`."""

TREE_SIZE = (4 + MAX_ROWS) * MAX_ROWS
"""Numbers of a tree's tables."""


@dataclass(frozen=True, slots=True)
class TreePlan:
    """How a tree is walked; all lists have one entry a row.

    Attributes:
        parents: row that each row follows; -1 for row 0.
        depths: rows on the way from row 0.
        saves: slot in which the state behind a row is kept for its later children; -1 for none.
        restores: slot whose state a row begins from; -1 goes on from the row before.
        paths: the rows on the way from row 0 to each row, itself last.
        tables: the numbers of `TreeTables`, one behind the other, as far as they are read.
    """

    parents: tuple[int, ...]
    depths: tuple[int, ...]
    saves: tuple[int, ...]
    restores: tuple[int, ...]
    paths: tuple[tuple[int, ...], ...]
    tables: bytes = field(repr=False, compare=False)

    @property
    def num_nodes(self) -> int:
        """Rows of the tree."""
        return len(self.parents)

    @property
    def is_chain(self) -> bool:
        """Whether each row follows the one before."""
        return self.parents == _CHAINS[self.num_nodes]


_ROW_BYTES = 4 * MAX_ROWS
_CHAINS = [tuple(range(-1, number - 1)) for number in range(MAX_ROWS + 1)]


def plan_chain(num_nodes: int) -> TreePlan:
    """Plan a chain of `num_nodes` rows."""
    return plan_tree(range(-1, num_nodes - 1))


def plan_tree(parents: Sequence[int]) -> TreePlan:
    """Plan the walk of a tree.

    Args:
        parents: row that each row follows, -1 for row 0; in the order that `depth_first` gives.

    Raises:
        ValueError: there are no rows or more than 32, a row follows none before it, or rows are in
            another order.
    """
    parents = tuple(parents)
    _expect_tree(parents)
    if depth_first(parents) != tuple(range(len(parents))):
        raise ValueError(
            f"plan_tree: the rows of {parents} are not depth-first with the largest subtree last; "
            "reorder them by depth_first"
        )
    depths: list[int] = []
    paths: list[tuple[int, ...]] = []
    for row, parent in enumerate(parents):
        depths.append(depths[parent] + 1 if row else 0)
        paths.append((*paths[parent], row) if row else (0,))
    saves, restores = _slots(parents)
    rows = (parents, depths, saves, restores, *paths)
    tables = b"".join([array("i", row).tobytes().ljust(_ROW_BYTES, b"\0") for row in rows])
    return TreePlan(parents, tuple(depths), saves, restores, tuple(paths), tables)


def depth_first(parents: Sequence[int]) -> tuple[int, ...]:
    """Order rows depth-first, smaller subtrees first; among equals the earlier row first.

    Args:
        parents: row that each row follows, before it; -1 for row 0.

    Returns:
        The rows in their new order: the first is row 0.

    Raises:
        ValueError: there are no rows or more than 32, or a row follows none before it.
    """
    _expect_tree(tuple(parents))
    sizes = [1] * len(parents)
    children: list[list[int]] = [[] for _ in parents]
    for row in range(len(parents) - 1, 0, -1):
        sizes[parents[row]] += sizes[row]
        children[parents[row]].append(row)  # later rows first, as a stack wants them
    order: list[int] = []
    waiting = [0]
    while waiting:
        order.append(waiting.pop())
        waiting += sorted(children[order[-1]], key=lambda row: sizes[row], reverse=True)
    return tuple(order)


class TreeTables:
    """A plan in device memory at one address, so that a captured graph serves every tree.

    Attributes:
        parents: int32 [32].
        depths: int32 [32].
        saves: int32 [32].
        restores: int32 [32].
        paths: int32 [32, 32], entry [row, depth] for depths up to the row's own; 0 beyond.

    Rows beyond the plan's keep what an earlier plan left: nothing reads them.

    Args:
        values: int32 of `TREE_SIZE` or more, whose beginning these tables are.
    """

    def __init__(self, values: torch.Tensor) -> None:
        rows = values[:TREE_SIZE].view(-1, MAX_ROWS)
        self.parents, self.depths, self.saves, self.restores = rows[:4]
        self.paths = rows[4:]


class StagedTree(TreeTables):
    """A plan in device memory that is loaded by itself; the longest chain at first."""

    def __init__(self, device: torch.device) -> None:
        self._table = StagedTable(TREE_SIZE, device)
        super().__init__(self._table.values)
        self.load(plan_chain(MAX_ROWS))

    def load(self, plan: TreePlan) -> None:
        """Copy a plan to the device, in the order of the current stream."""
        self._table.load(array("i", plan.tables))


def _slots(parents: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Give each branch a slot until its last child begins."""
    saves, restores = [-1] * len(parents), [-1] * len(parents)
    last_child = {parent: row for row, parent in enumerate(parents)}
    num_children = [parents.count(row) for row in range(len(parents))]
    kept: list[int] = []  # branches whose state is kept, by slot
    for row, parent in enumerate(parents):
        if row and parent != row - 1:
            restores[row] = kept.index(parent)
            if last_child[parent] == row:
                kept.remove(parent)  # always the newest
        if num_children[row] > 1:
            saves[row] = len(kept)
            kept.append(row)
    return tuple(saves), tuple(restores)


def _expect_tree(parents: tuple[int, ...]) -> None:
    if not 1 <= len(parents) <= MAX_ROWS:
        raise ValueError(f"a tree has 1 to {MAX_ROWS} rows, not {len(parents)}")
    for row, parent in enumerate(parents):
        if not (parent == -1 if row == 0 else 0 <= parent < row):
            raise ValueError(f"row {row} follows row {parent}: a tree's rows follow earlier ones")
