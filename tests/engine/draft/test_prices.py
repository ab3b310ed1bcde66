"""A round's price: what the table says, and what measured rounds make of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.draft.curiosity import SHARE
from engine.draft.price_table import PriceTable
from engine.draft.prices import DOUBT, ROW_CLASSES, Prices
from kernels.common.round import MAX_ROWS

TABLE = PriceTable(
    "fp8_block", (1, 4, 16, 32), (1024, 3072), ((6.0, 9.0, 15.0, 31.0), (7.0, 10.0, 17.0, 35.0)),
    (1, 2), (0.25, 0.5), tree_ms=((6.0, 10.0, 17.0, 34.0), (7.0, 11.0, 19.0, 38.0)), block_ms=2.0,
)  # fmt: skip


def at(prices: Prices, rows: int, context_tokens: int = 1024) -> float:
    return prices.verify_ms(context_tokens)[ROW_CLASSES.index(rows)]


def timed(prices: Prices, rows: int, ms: float, times: int = 1, context_tokens: int = 1024) -> None:
    for _ in range(times):
        prices.observe(rows, context_tokens, 0, {"draft": 0.0, "verify": ms})


def test_prices_are_those_of_the_table_until_a_round_says_otherwise():
    prices = Prices(TABLE)
    for context_tokens in (0, 1024, 2000, 9000):
        for branches in (False, True):
            assert prices.verify_ms(context_tokens, branches=branches) == pytest.approx(
                [TABLE.verify(rows, context_tokens, branches=branches) for rows in ROW_CLASSES]
            )
    assert prices.block_ms() == TABLE.block_ms


def test_a_draft_costs_its_steps():
    assert Prices(TABLE).draft_ms() == [0, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75]


def test_the_median_of_recent_rounds_is_believed_and_an_outlier_is_not():
    prices = Prices(TABLE)
    timed(prices, 4, 900.0)  # the machine was busy
    assert at(prices, 4) == 9
    timed(prices, 4, 10.0, times=4)
    assert at(prices, 4) == pytest.approx(10)
    timed(prices, 4, 900.0, times=2)
    assert at(prices, 4) == pytest.approx(10)


def test_what_was_never_timed_is_as_much_dearer_as_its_neighbour():
    prices = Prices(TABLE)
    timed(prices, 1, 60.0, times=DOUBT + 1)
    assert at(prices, 32) == pytest.approx(310)
    assert at(prices, 1) == pytest.approx(60)


def test_what_was_never_timed_lies_between_what_was():
    prices = Prices(TABLE)
    timed(prices, 1, 2 * 6.0, times=DOUBT + 1)
    timed(prices, 16, 3 * 15.0, times=DOUBT + 1)
    assert at(prices, 4) == pytest.approx((2 + 1 / 3) * 9.0)  # the third of nine classes
    assert at(prices, 32) == pytest.approx(3 * 31.0)


def hoped(prices: Prices, rows: int) -> float:
    return prices.verify_ms(1024, hopeful=True)[ROW_CLASSES.index(rows)]


def test_rows_beside_timed_ones_may_cost_no_more_than_fewer():
    prices = Prices(TABLE)
    assert prices.verify_ms(1024, hopeful=True) == prices.verify_ms(1024)
    timed(prices, 4, 9.0, times=DOUBT + 1)
    timed(prices, 16, 15.0, times=DOUBT + 1)
    assert [hoped(prices, rows) for rows in (4, 5, 12, 16, 24)] == [9.0, 9.0, 9.0, 15.0, 15.0]
    assert hoped(prices, 3) == at(prices, 4) / 2
    far = (1, 2, 6, 7, 8, 32)
    assert [hoped(prices, rows) for rows in far] == [at(prices, rows) for rows in far]
    timed(prices, 5, 10.0, times=DOUBT + 1)
    assert (hoped(prices, 5), hoped(prices, 6)) == (10.0, 10.0)


def test_what_was_tried_once_still_goes_with_its_neighbour():
    """Else one try of six rows would keep a table three times too dear, for all beyond as well."""
    prices = Prices(TABLE)
    timed(prices, 8, 3 * TABLE.verify(8), times=DOUBT)
    timed(prices, 4, TABLE.verify(4) / 3, times=DOUBT + 1)
    assert at(prices, 8) == pytest.approx(TABLE.verify(8) / 3)
    assert at(prices, 32) == pytest.approx(TABLE.verify(32) / 3)


def test_where_a_guess_and_a_measurement_disagree_the_measurement_is_right():
    """A guess of 46 ms for 24 rows lies between 60 ms of one row and 62 ms of 32."""
    prices = Prices(TABLE)
    timed(prices, 1, 60.0, times=DOUBT + 1)
    timed(prices, 32, 62.0, times=9)
    ladder = prices.verify_ms(1024)
    assert (ladder[0], ladder[-1]) == pytest.approx((60, 62))
    assert all(60 <= one <= 62 for one in ladder)


def test_rows_that_nobody_needs_could_fill_up_a_class():
    prices = Prices(TABLE)
    timed(prices, 4, 90.0, times=9)
    timed(prices, 8, 11.0, times=9)
    assert at(prices, 4) == at(prices, 8) == pytest.approx(11)


def test_a_growing_context_is_not_taken_for_a_slower_machine():
    prices = Prices(TABLE)
    timed(prices, 4, 10.0, times=5, context_tokens=3072)
    assert at(prices, 4) == pytest.approx(9)


def test_a_tree_is_not_taken_for_a_slower_machine():
    prices = Prices(TABLE)
    for _ in range(5):
        prices.observe(16, 1024, 0, {"draft": 0.0, "verify": 17.0}, branches=True)
    assert at(prices, 16) == pytest.approx(15)


def test_rows_between_classes_teach_nothing():
    prices = Prices(TABLE)
    timed(prices, 9, 900.0, times=9)
    assert prices.verify_ms(0) == Prices(TABLE).verify_ms(0)


def test_a_round_that_was_not_timed_teaches_nothing():
    prices = Prices(TABLE)
    timed(prices, 4, 0.0, times=9)
    assert prices.verify_ms(0) == Prices(TABLE).verify_ms(0)
    assert not prices.is_timed(4)


def test_rows_between_classes_are_never_waited_for():
    prices = Prices(TABLE)
    assert prices.is_timed(9)
    assert not prices.is_timed(8)
    timed(prices, 8, 11.0, times=DOUBT + 1)
    assert prices.is_timed(8)


def test_a_share_of_draft_and_verify_is_saved_for_tries():
    prices = Prices(TABLE)
    prices.observe(1, 1024, 1, {"draft": 4.0, "verify": 6.0})
    prices.curiosity.tries(SHARE * 9.9)
    assert prices.curiosity.is_due
    prices.curiosity.tries(SHARE * 0.2)
    assert not prices.curiosity.is_due


def test_steps_are_priced_without_the_hosts_part_of_a_draft():
    prices = Prices(TABLE)
    timed(prices, 1, 6.0)
    for _ in range(3):
        prices.observe(1, 0, 0, {"draft": 0.1, "verify": 6.0})
    for _ in range(3):
        prices.observe(4, 0, 2, {"draft": 1.1, "verify": 9.0})
    assert prices.draft_ms() == pytest.approx([0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5])


def test_rounds_that_ran_ahead_say_nothing_of_the_hosts_part():
    """Nobody was asked before them: the next draft would pass for dearer than it is."""
    prices = Prices(TABLE)
    timed(prices, 1, 6.0)
    for was_asked in (*(True,) * 3, *(False,) * 9):
        prices.observe(1, 0, 0, {"draft": 0.1 * was_asked, "verify": 6.0}, was_asked=was_asked)
    for _ in range(3):
        prices.observe(4, 0, 2, {"draft": 1.1, "verify": 9.0})
    assert prices.draft_ms()[2] == pytest.approx(1)


def test_a_block_is_learned_where_it_drafted_alone():
    prices = Prices(TABLE)
    for _ in range(3):
        prices.observe(1, 0, 0, {"draft": 0.5, "verify": 6.0})
    for steps, ms in ((0, 4.5), (0, 4.5), (0, 4.5), (3, 90.0), (3, 90.0)):
        prices.observe(8, 0, steps, {"draft": ms, "verify": 9.0}, with_block=True)
    assert prices.block_ms() == pytest.approx(4)
    assert prices.draft_ms()[3] == TABLE.draft(3)


def test_frozen_prices_learn_nothing():
    prices = Prices(TABLE, learns=False)
    timed(prices, 4, 900.0, times=9)
    assert at(prices, 4) == 9


ROUNDS = st.tuples(
    st.integers(1, 32), st.integers(0, 40_000), st.integers(0, 7),
    st.fixed_dictionaries({"draft": st.floats(0, 1e4), "verify": st.floats(0.01, 1e4)}),
)  # fmt: skip


@given(st.lists(ROUNDS, max_size=30), st.integers(0, 40_000))
def test_more_rows_or_steps_never_cost_less_whatever_was_measured(rounds, context_tokens):
    prices = Prices(TABLE)
    for one in rounds:
        prices.observe(*one)
    trees = prices.verify_ms(context_tokens, branches=True)
    for ladder in (prices.verify_ms(context_tokens), trees, prices.draft_ms()):
        assert ladder == sorted(ladder)


def test_classes_reach_the_largest_tree():
    assert ROW_CLASSES[0] == 1
    assert ROW_CLASSES[-1] == MAX_ROWS
