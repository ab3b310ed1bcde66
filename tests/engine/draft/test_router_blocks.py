"""A block of DFlash2 is asked for where it pays, and shares trees with the other drafters."""

from dataclasses import replace
from itertools import pairwise

import pytest

from engine.draft.calibration import Calibration
from engine.draft.ngrams import Ending
from engine.draft.prices import Prices
from engine.draft.router import Router
from tests.engine.draft.played import (
    FIRST_GAP,
    H200,
    follow,
    router_of,
)


def block_router(block_ms, *, max_steps=7, branches=True, table=H200) -> Router:
    prices = Prices(replace(table, block_ms=block_ms), learns=False)
    calibration = Calibration({"mtp": 7, "dflash2": 15})
    return router_of(prices, calibration, max_steps=max_steps, max_places=15, branches=branches)


def says(**chains):
    """What each drafter says; one that is not named must not run."""
    return lambda drafter, num_tokens: chains[drafter][:num_tokens]


BLOCK = tuple(range(50, 65))


def test_a_block_is_asked_where_it_is_cheaper_than_the_heads_steps():
    chosen = block_router(0.1).propose([], 0, 31, says(dflash2=BLOCK))
    assert (chosen.drafter, chosen.num_steps, chosen.with_block) == ("dflash2", 0, True)
    assert chosen.token_ids == BLOCK[: len(chosen.token_ids)]
    assert chosen.expected_ms == pytest.approx(0.1 + H200.verify(len(chosen.token_ids) + 1))
    chosen = block_router(90.0).propose([], 0, 31, says(mtp=BLOCK))
    assert (chosen.drafter, chosen.with_block) == ("mtp", False)
    assert not block_router(90.0, max_steps=0).propose([], 0, 31, says()).token_ids


def test_a_block_shares_a_tree_with_lookup():
    endings = [Ending(6, (50, 51, 7, 8)), Ending(4, (9, 6, 7, 8))]
    chosen = block_router(0.1).propose(endings, 0, 31, says(dflash2=BLOCK))
    assert chosen.drafter == "dflash2+lookup"
    assert chosen.token_ids.count(50) == chosen.token_ids.count(51) == 1
    chain = block_router(0.1, branches=False).propose(endings, 0, 31, says(dflash2=BLOCK))
    assert (chain.drafter, chain.parents) == ("dflash2", tuple(range(len(chain.parents))))


def test_the_one_of_two_that_rests_is_tried_ever_more_rarely_in_the_same_tree():
    router = block_router(0.1)
    tried: list[int] = []
    for at in range(200):
        truth = tuple(range(10 * at, 10 * at + 15))
        chosen = router.propose(
            [], 0, 31, says(dflash2=truth, mtp=tuple(-1 - one for one in truth))
        )
        if chosen.num_steps:
            tried.append(at)
            assert chosen.with_block
            assert chosen.drafter in ("dflash2", "mtp+dflash2")
        router.learn(follow(chosen, truth))
    gaps = [later - one for one, later in pairwise([-1, *tried])]
    assert gaps == [FIRST_GAP * 2**one for one in range(len(gaps))]
    assert len(gaps) >= 4


def test_a_block_that_rests_and_knows_more_is_taken_up():
    """It costs more than the head's steps, and the head is right about the first token only."""
    router = block_router(1.0)
    run = lambda truth: says(mtp=(truth[0], *[-1] * 6), dflash2=truth)
    names: list[str] = []
    for at in range(120):
        truth = tuple(range(20 * at, 20 * at + 16))
        chosen = router.propose([], 0, 31, run(truth[:15]))
        router.learn(follow(chosen, truth))
        names.append(chosen.drafter)
    assert set(names[-20:]) <= {"dflash2", "mtp+dflash2"}
