"""Whoever was tried is tried again at once only where the round would have paid with it."""

import pytest

from engine.draft.candidates import Chain
from engine.draft.market import Market
from engine.draft.ngrams import Ending
from engine.draft.price_table import PriceTable
from engine.draft.prices import Prices
from engine.draft.said import Said, worth_another_try

# a round takes 10 ms, and a millisecond for each row beyond the first
MARKET = Market(
    Prices(PriceTable("bf16", (1, 32), (1024,), ((10.0, 41.0),), (1, 2), (1.0, 2.0)), learns=False),
    0,
)
COMMITTED = (1, 2, 3, 4)


def again(right, *, mtp_ms=1.0, ending=(), tried=("mtp",), market=MARKET):
    """Who is tried again; each says three tokens, of which so many were right."""
    chains = [Chain(name, (1, 2, 3), (0.5,) * 3) for name in right]
    endings = [Ending(4, ending)] if ending else []
    draft_ms = {"mtp": mtp_ms, "dflash2": 2.0}
    said = Said(chains, endings, frozenset(tried), market, draft_ms)
    return worth_another_try(said, right, COMMITTED)


@pytest.mark.parametrize(
    ("num_right", "mtp_ms", "found"),
    [
        (1, 1.0, ["mtp"]),  # 2 / (13 + 1) is more than 1 / 10
        (0, 1.0, []),
        (1, 7.0, []),  # 2 / (13 + 7) is no more
        (1, 6.9, ["mtp"]),
    ],
)
def test_what_would_have_paid_beside_a_plain_round_is_tried_again(num_right, mtp_ms, found):
    assert again({"mtp": num_right}, mtp_ms=mtp_ms) == found


def test_a_copy_that_paid_more_leaves_it_to_rest():
    # two of a copy's tokens at 12 ms are 0.25 a millisecond, one of the head's 0.14
    assert again({"mtp": 1}, ending=(1, 2, 9)) == []
    assert again({"mtp": 3}, ending=(1, 2, 9)) == ["mtp"]
    assert again({"mtp": 1}, ending=(9, 2, 3)) == ["mtp"]


def test_the_drafter_that_was_chosen_is_what_it_must_beat():
    # a block's 3 / (13 + 2) is 0.2
    assert again({"mtp": 1, "dflash2": 2}) == []
    assert again({"mtp": 2, "dflash2": 2}) == ["mtp"]


def test_two_that_were_tried_are_told_each():
    assert again({"mtp": 1, "dflash2": 1}, tried=("mtp", "dflash2"), mtp_ms=9.0) == ["dflash2"]


def test_where_nothing_was_tried_or_no_price_is_known_nobody_is():
    assert again({"mtp": 3}, tried=()) == []
    assert again({"mtp": 3}, market=None) == []
