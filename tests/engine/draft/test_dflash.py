"""A walk and a tree through the candidates of a block."""

import math

import pytest

from engine.dflash.block import Lattice
from engine.draft.dflash import likeliest, walk

NAN, NEVER = math.nan, -math.inf

# the second place's best depends on what was taken before it
LATTICE = Lattice(
    ids=[[10, 11], [20, 21], [30, 31]],
    scores=[
        [[1.0, 0.0], [1.0, 0.0]],
        [[0.0, 3.0], [5.0, 0.0]],
        [[0.0, 0.1], [2.0, 0.0]],
    ],
)


def test_a_walk_takes_the_best_behind_what_it_took_before():
    assert walk(LATTICE, 7) == [10, 21, 30]
    assert walk(LATTICE, 2) == [10, 21]


def test_equal_scores_go_to_the_first():
    assert walk(Lattice([[7, 8]], [[[0.5, 0.5]] * 2]), 3) == [7]


@pytest.mark.parametrize("bad", [[NEVER, NEVER], [NAN, NAN], [NAN, NEVER]])
def test_a_place_without_a_number_ends_walk_and_tree(bad):
    broken = Lattice(LATTICE.ids, [LATTICE.scores[0], [bad, bad], LATTICE.scores[2]])
    assert walk(broken, 7) == [10]
    assert likeliest(broken, 7) == ([10, 11], [0, 0])


def test_a_candidate_without_a_number_is_not_taken():
    assert walk(Lattice([[-1, 8]], [[[NEVER, -9.0]] * 2]), 3) == [8]
    assert likeliest(Lattice([[-1, 8]], [[[NEVER, -9.0]] * 2]), 3) == ([8], [0])


def test_a_tree_takes_the_likeliest_first():
    token_ids, parents = likeliest(LATTICE, 31)
    chances = {0: 1.0}
    places = {0: -1}
    for row, (token_id, parent) in enumerate(zip(token_ids, parents, strict=True), 1):
        place = places[row] = places[parent] + 1
        before = 0 if parent == 0 else LATTICE.ids[place - 1].index(token_ids[parent - 1])
        scores = LATTICE.scores[place][before]
        weights = [math.exp(one) for one in scores]
        share = weights[LATTICE.ids[place].index(token_id)] / sum(weights)
        chances[row] = chances[parent] * share
    in_order = [chances[row] for row in range(1, len(token_ids) + 1)]
    assert in_order == sorted(in_order, reverse=True)
    every = [(parent, one) for parent, one in zip(parents, token_ids, strict=True)]
    assert len(set(every)) == len(every) > 6
    assert min(in_order) >= 0.01
    # of 14 nodes of the whole tree, those of less than one in a hundred are left out
    assert len(every) == sum(chance >= 0.01 for chance in whole_tree_chances())


def whole_tree_chances() -> list[float]:
    found: list[float] = []

    def spread(place: int, before: int, chance: float) -> None:
        if place == 3:
            return
        weights = [math.exp(one) for one in LATTICE.scores[place][before]]
        for at, one in enumerate(weights):
            found.append(chance * one / sum(weights))
            spread(place + 1, at, found[-1])

    spread(0, 0, 1.0)
    return found


def test_a_tree_has_no_more_tokens_than_there_is_room_for():
    # 10 at 73 %, then 21 behind it at 70 %, then 30 behind both at 61 %
    assert likeliest(LATTICE, 3) == ([10, 21, 30], [0, 1, 2])
    assert likeliest(LATTICE, 4) == ([10, 21, 30, 11], [0, 1, 2, 0])
