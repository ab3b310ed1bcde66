"""A tree of rows: its order, what a walk keeps, and the tables in memory."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kernels.common.round import MAX_ROWS
from kernels.common.tree import (
    MAX_KEPT,
    StagedTree,
    depth_first,
    plan_chain,
    plan_tree,
)


@st.composite
def trees(draw: st.DrawFn) -> tuple[int, ...]:
    """Any tree of up to 32 rows, in the order that kernels ask for."""
    count = draw(st.integers(1, MAX_ROWS))
    parents = [-1, *(draw(st.integers(0, row - 1)) for row in range(1, count))]
    return reordered(parents)


def reordered(parents: list[int]) -> tuple[int, ...]:
    order = depth_first(parents)
    place = {row: at for at, row in enumerate(order)}
    return tuple(-1 if parents[row] < 0 else place[parents[row]] for row in order)


@given(trees())
def test_a_walk_reaches_every_row_from_its_parents_state(parents: tuple[int, ...]) -> None:
    plan = plan_tree(parents)
    kept: dict[int, int] = {}
    at = -1
    for row, parent in enumerate(parents):
        if plan.restores[row] >= 0:
            at = kept[plan.restores[row]]
        assert at == parent
        at = row
        if plan.saves[row] >= 0:
            assert plan.saves[row] < MAX_KEPT
            kept[plan.saves[row]] = row


@given(trees())
def test_paths_follow_the_parents(parents: tuple[int, ...]) -> None:
    plan = plan_tree(parents)
    for row, path in enumerate(plan.paths):
        assert path[0] == 0
        assert path[-1] == row
        assert all(plan.parents[one] == before for before, one in pairwise(path))
        assert plan.depths[row] == len(path) - 1


def test_the_bushiest_trees_keep_few_states() -> None:
    complete = [-1, *((row - 1) // 2 for row in range(1, 31))]
    comb = [-1, *(row - 1 if row % 2 else max(row - 2, 0) for row in range(1, 32))]
    for parents in (complete, comb, [-1] + [0] * 31):
        assert max(plan_tree(reordered(parents)).saves) < MAX_KEPT


def test_a_chain_keeps_and_takes_back_nothing() -> None:
    plan = plan_chain(32)
    assert plan.is_chain
    assert set(plan.saves) == set(plan.restores) == {-1}
    assert plan.paths[31] == tuple(range(32))


@pytest.mark.parametrize(
    ("parents", "why"),
    [
        ((), "1 to 32 rows"),
        ((-1,) + (0,) * 32, "1 to 32 rows"),
        ((0,), "row 0 follows row 0"),
        ((-1, 1), "row 1 follows row 1"),
        ((-1, 0, 1, 0), "largest subtree last"),
        ((-1, 0, 0, 1), "reorder them by depth_first"),
    ],
)
def test_what_is_no_tree_is_refused_in_words(parents: tuple[int, ...], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        plan_tree(parents)


def test_tables_stay_at_their_address() -> None:
    tables = StagedTree(torch.device("cpu"))
    place = tables.parents.data_ptr()
    plan = plan_tree((-1, 0, 0, 2))
    tables.load(plan)
    assert tables.parents.data_ptr() == place
    assert tables.parents[:4].tolist() == [-1, 0, 0, 2]
    assert tables.depths[:4].tolist() == [0, 1, 1, 2]
    assert tables.saves[:4].tolist() == [0, -1, -1, -1]
    assert tables.restores[:4].tolist() == [-1, -1, 0, -1]
    assert tables.paths[3, :3].tolist() == [0, 2, 3]
