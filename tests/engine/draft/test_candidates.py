"""One tree of what all drafters propose: equal beginnings once, the likeliest tokens first."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.draft.calibration import LONGEST_ENDING
from engine.draft.candidates import LEAST_CHANCE, Chain, grow
from engine.draft.draft import Draft
from engine.draft.ngrams import Ending

HALF = [0.5] * (LONGEST_ENDING + 1)


def mtp(token_ids, chances) -> Chain:
    return Chain("mtp", token_ids, chances)


def test_a_chain_has_the_product_of_its_chances():
    tree = grow([mtp([7, 8, 9], [0.9, 0.5, 0.5])], [], HALF, 31)
    assert (tree.token_ids, tree.parents, tree.depths) == ([7, 8, 9], [0, 1, 2], [1, 2, 3])
    assert tree.chances == pytest.approx([0.9, 0.45, 0.225])
    assert tree.drafter(3) == "mtp"


def test_a_copy_grows_surer_with_its_length():
    by_length = [length / 100 for length in range(LONGEST_ENDING + 1)]
    tree = grow([], [Ending(30, (5, 6, 7, 8))], by_length, 3)
    assert tree.token_ids == [5, 6, 7]
    assert tree.chances == pytest.approx([0.3, 0.3 * 0.31, 0.3 * 0.31 * 0.32])
    assert tree.drafter(3) == "lookup"


def test_a_token_of_both_is_missed_only_if_both_are_wrong():
    tree = grow([mtp([7], [0.8])], [Ending(2, (7,))], HALF, 31)
    assert tree.token_ids == [7]
    assert tree.chances == pytest.approx([1 - 0.2 * 0.5])
    assert tree.drafter(1) == "mtp+lookup"


def test_a_block_and_a_chain_share_what_they_agree_on():
    chains = [mtp([7, 8], [0.6, 0.4]), Chain("dflash2", (7, 9, 9), (0.5, 0.5, 0.5))]
    tree = grow(chains, [Ending(2, (9, 9))], [0.1] * (LONGEST_ENDING + 1), 31)
    assert (tree.token_ids[:4], tree.parents[:4]) == ([7, 9, 8, 9], [0, 1, 1, 2])
    assert tree.chances[0] == pytest.approx(1 - 0.4 * 0.5)
    assert [tree.drafter(number) for number in (0, 1)] == ["off", "mtp+dflash2"]
    assert tree.drafter(len(tree)) == "mtp+dflash2+lookup"


def test_a_tree_begins_as_a_chain_up_to_its_first_branch():
    assert grow([], [], HALF, 31).chain_length() == 0
    assert grow([mtp([7, 8], [0.6, 0.4])], [], HALF, 31).chain_length() == 2
    tree = grow([mtp([7, 8], [0.6, 0.4])], [Ending(2, (7, 9))], HALF, 31)
    assert (tree.parents, tree.chain_length()) == ([0, 1, 1], 2)


def test_equal_beginnings_are_one_path_that_then_branches():
    tree = grow([mtp([7, 8], [0.6, 0.4])], [Ending(2, (7, 9))], HALF, 31)
    assert (tree.token_ids, tree.parents) == ([7, 9, 8], [0, 1, 1])
    assert tree.chances == pytest.approx([0.8, 0.8 * 0.5, 0.8 * 0.4])
    assert tree.drafter(1) == tree.drafter(2) == "mtp+lookup"


def test_chances_that_exclude_each_other_do_not_exceed_one():
    tree = grow([mtp([7], [0.9])], [Ending(2, (8,))], [0.6] * (LONGEST_ENDING + 1), 31)
    assert dict(zip(tree.token_ids, tree.chances, strict=True)) == pytest.approx({7: 0.6, 8: 0.4})


def test_endings_that_differ_share_their_chance_by_rank():
    endings = [Ending(2, (5,)), Ending(2, (6,)), Ending(2, (5, 1))]
    tree = grow([], endings, HALF, 2)
    assert (tree.token_ids, tree.parents) == ([5, 1], [0, 1])
    assert tree.chances == pytest.approx([0.5 * 1.25 / 1.75, 0.25 * 1.25 / 1.75])


def test_what_can_never_pay_is_not_looked_at():
    tree = grow([], [Ending(2, tuple(range(31)))], HALF, 31)
    assert tree.chances[-1] >= LEAST_CHANCE > tree.chances[-1] / 2
    assert grow([mtp([1], [LEAST_CHANCE / 2])], [], HALF, 31).drafter(0) == "off"


ENDINGS = st.lists(
    st.builds(Ending, st.integers(1, 32), st.lists(st.integers(0, 3), max_size=9).map(tuple)),
    max_size=4,
)


@given(
    st.lists(st.integers(0, 3), max_size=7), st.lists(st.floats(0, 1), min_size=7, max_size=7),
    st.lists(st.integers(0, 3), max_size=7), ENDINGS, st.floats(0, 1), st.integers(1, 31),
)  # fmt: skip
def test_a_tree_is_whole_at_every_cut(chain, chances, block, endings, chance, num_tokens):
    tree = grow(
        [mtp(chain, chances), Chain("dflash2", block, chances)],
        endings,
        [chance] * (LONGEST_ENDING + 1),
        num_tokens,
    )
    assert len(tree) <= num_tokens
    assert tree.chances == sorted(tree.chances, reverse=True)
    paths = [()]
    for token_id, parent, depth in zip(tree.token_ids, tree.parents, tree.depths, strict=True):
        paths.append((*paths[parent], token_id))  # a parent stands before its children
        assert len(paths[-1]) == depth
    assert len(set(paths)) == len(paths)
    proposed = [tuple(chain), tuple(block), *(one.continuation for one in endings)]
    assert all(any(one[: len(path)] == path for one in proposed) for path in paths)
    for row, path in enumerate(paths):
        share = sum(
            one for one, parent in zip(tree.chances, tree.parents, strict=True) if parent == row
        )
        assert share <= (tree.chances[row - 1] if path else 1) + 1e-9
    Draft.tree(tree.token_ids, tree.parents)
