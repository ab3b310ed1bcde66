"""A drafter that does not pay rests, is tried ever more rarely, and comes back when it pays."""

from itertools import pairwise

import pytest

from engine.draft.calibration import LONGEST_GAP, LOOKUP_PRIORS, Calibration
from engine.draft.ngrams import Ending
from engine.draft.price_table import PriceTable
from engine.draft.prices import DOUBT, Prices
from engine.draft.router import ROUNDS_WITHOUT_A_COPY, Router
from tests.engine.draft.played import (
    COPY,
    FIRST_GAP,
    H200,
    ROWS_COST_AS_MUCH_AS_ROUNDS,
    new_router,
    no_head,
    play,
    play_ahead,
    right,
    router_of,
    wrong,
)


def test_a_head_that_is_always_right_grows_to_its_limit():
    steps = [one.num_steps for one in play(new_router(H200), 40, right)]
    assert steps[-1] == 7
    assert steps == sorted(steps)
    assert play(new_router(H200, max_steps=4), 40, right)[-1].num_steps == 4


def test_a_head_that_is_always_wrong_is_dropped_and_probed_ever_more_rarely():
    steps = [one.num_steps for one in play(new_router(H200), 2000, wrong)]
    first_off = steps.index(0)
    assert first_off < 40
    assert set(steps[first_off:]) == {0, 1}
    tried = [at for at, number in enumerate(steps) if number and at > first_off]
    gaps = [later - one for one, later in pairwise(tried)]
    assert tried[0] - first_off == FIRST_GAP - 1
    assert gaps[:7] == [16, 32, 64, 128, 256, LONGEST_GAP, LONGEST_GAP]


def test_rounds_that_run_ahead_are_probed_as_often():
    found = [play(new_router(H200), 2000, wrong), play_ahead(new_router(H200), 2000, wrong)]
    tried = [[at for at, one in enumerate(each) if one and one.num_steps] for each in found]
    assert tried[0] == tried[1]
    assert sum(one is None for one in found[1]) > 1900


def test_a_head_that_mends_while_rounds_run_ahead_is_taken_up_again():
    router = new_router()
    play_ahead(router, 1000, wrong)
    proposals = play_ahead(router, 600, right)
    assert proposals[0] is None or not proposals[0].num_steps
    assert all(one and one.num_steps == 7 for one in proposals[-50:])


def settled_router() -> Router:
    """One that expects neither head nor copy to be right."""
    router = new_router(H200)
    play_ahead(router, 300, wrong)
    assert router.goes_on_plainly([], 0, 31)
    router.learn([7])
    return router


def test_an_ending_that_would_pay_if_it_went_on_is_waited_for():
    assert not settled_router().goes_on_plainly([COPY], 0, 31)
    assert settled_router().goes_on_plainly([Ending(2, ())], 0, 31)


def test_behind_a_copy_rounds_wait_for_each_other():
    """Another one may begin, and it is seen at once."""
    router = settled_router()
    router.goes_on_plainly([COPY], 0, 31)
    router.learn(COPY.continuation[:1])
    for _ in range(ROUNDS_WITHOUT_A_COPY):
        assert not router.goes_on_plainly([], 0, 31)
        router.learn([7])
    assert router.expects_no_copy


def test_a_dropped_head_that_mends_is_taken_up_again():
    """The first try after it has mended may be long in coming; then a few rounds are enough."""
    router = new_router()
    play(router, 1000, wrong)
    steps = [one.num_steps for one in play(router, 600, right)]
    first = next(at for at, number in enumerate(steps) if number)
    assert first > FIRST_GAP
    assert all(steps[first + 20 :])
    assert steps[-1] == 7


def test_a_head_that_paid_meanwhile_is_soon_tried_again():
    router = new_router(H200)
    play(router, 400, wrong)
    play(router, 300, right)
    steps = [one.num_steps for one in play(router, 200, wrong)]
    first_off = steps.index(0)
    assert steps[first_off:].index(1) == FIRST_GAP - 1


def test_a_head_that_is_merely_beaten_is_not_probed():
    def copied(truth):
        return [Ending(32, tuple(truth[:31]))]

    proposals = play(new_router(H200), 100, right, endings=copied)
    assert {(one.drafter, one.num_steps) for one in proposals} == {("lookup", 0)}


def test_a_probe_that_may_not_branch_is_scored_and_leaves_the_copy_alone():
    router = new_router(H200, branches=False)
    play(router, 60, wrong)

    def copied(truth):
        return [Ending(32, tuple(truth[:31]))]

    proposals = play(router, 200, right, endings=copied)
    tried = [one for one in proposals if one.num_steps]
    assert tried
    assert {one.drafter for one in proposals} == {"lookup"}
    assert router._calibration.chain_chances("mtp")[0] > 0.1


def test_lookup_that_is_always_wrong_is_dropped_and_comes_back_when_it_is_right():
    """It is scored in plain rounds too, so it needs no probe; another row costs a fiftieth here."""
    router = new_router(H200, max_steps=0)

    def misread(truth):
        return [Ending(8, tuple(wrong(one) for one in truth[:31]))]

    def read(truth):
        return [Ending(8, tuple(truth[:31]))]

    assert play(router, 90, wrong, endings=misread)[-1].drafter == "off"
    assert play(router, 20, wrong, endings=read)[-1].drafter == "lookup"


@pytest.fixture
def curious(monkeypatch):
    """A router that may look for a try, where one row was timed; and what its search came to."""
    prices, told = Prices(ROWS_COST_AS_MUCH_AS_ROUNDS), []
    for _ in range(DOUBT + 1):
        prices.observe(1, 0, 0, {"draft": 0.0, "verify": 10.0})
    assert prices.curiosity.is_due
    monkeypatch.setattr(prices.curiosity, "tries", told.append)
    monkeypatch.setattr(prices.curiosity, "finds_nothing", lambda: told.append("nothing"))
    return router_of(prices, Calibration({}), max_steps=0, branches=True), told


def test_a_try_is_charged_what_it_takes_beyond_its_tokens_at_the_usual_rate(curious):
    """Two rows may cost what one does, and are thought to cost 20 ms; a token usually takes 10."""
    router, told = curious
    assert router.propose([COPY], 0, 31, no_head).token_ids == COPY.continuation[:1]
    assert told == [pytest.approx(20 - (1 + LOOKUP_PRIORS[32]) * 10)]


def test_where_there_is_nothing_to_try_the_search_is_told(curious):
    router, told = curious
    assert router.propose([], 0, 31, no_head).token_ids == ()
    assert told == ["nothing"]


@pytest.mark.parametrize("rows_cost", [32.0, 1.05], ids=["dear rows", "a dear drafter"])
def test_a_drafter_that_is_right_and_does_not_pay_is_tried_ever_more_rarely(rows_cost):
    """A try that was right brings another one only if its tokens are worth what they cost."""
    step_ms = 1.0 if rows_cost > 2 else 200.0
    table = PriceTable(
        "bf16", (1, 32), (1024,), ((10.0, 10.0 * rows_cost),), (1, 2), (step_ms, 2 * step_ms)
    )
    steps = [one.num_steps for one in play(new_router(table), 600, right)]
    tried = [at for at, number in enumerate(steps) if number]
    gaps = [later - one for one, later in pairwise(tried)]
    assert gaps == [FIRST_GAP * 2 ** (1 + one) for one in range(len(gaps))]
    assert len(gaps) == 5
