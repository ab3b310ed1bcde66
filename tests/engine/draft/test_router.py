"""The router buys the most tokens a millisecond, by what it has seen and nothing else."""

import random
import statistics
import time
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.draft.calibration import FIRST_GAPS, LONGEST_GAP, LOOKUP_PRIORS, Calibration
from engine.draft.decision import Weighing
from engine.draft.ngrams import Ending
from engine.draft.price_table import PriceTable, shipped_prices
from engine.draft.prices import DOUBT, ROW_CLASSES, Prices
from engine.draft.router import ROUNDS_WITHOUT_A_COPY, Router
from tests.tries import tries

FIRST_GAP = FIRST_GAPS["mtp"]
STEPS = ((1, 2), (1.0, 2.0))
MILLISECOND_A_ROW = PriceTable("bf16", (1, 32), (1024,), ((10.0, 41.0),), *STEPS)
ROWS_COST_AS_MUCH_AS_ROUNDS = PriceTable("bf16", (1, 32), (1024,), ((10.0, 320.0),), *STEPS)
H200 = shipped_prices("sm_90", "nvfp4")
COPY = Ending(32, tuple(range(100, 131)))


def new_router(table=MILLISECOND_A_ROW, *, max_steps=7, branches=True) -> Router:
    prices = Prices(table, learns=False)
    return router_of(prices, Calibration({"mtp": 7}), max_steps=max_steps, branches=branches)


def router_of(prices, calibration, **limits) -> Router:
    return Router(Weighing(prices=prices, calibration=calibration, **limits))


def head(*token_ids):
    return lambda drafter, num_steps: token_ids[:num_steps]


def no_head(drafter, num_steps):
    raise AssertionError("the head ran")


def test_a_chain_is_as_long_as_it_pays():
    """By the priors 0.75, 0.675, 0.6075, in tokens a millisecond.

    No draft: 1 / 10. One token: 1.75 / (11 + 1) = 0.146. Two: (1.75 + 0.506) / (12 + 2) = 0.161.
    Three: (2.256 + 0.308) / (13 + 3) = 0.160.
    """
    chosen = new_router().propose([], 0, 31, head(*range(7)))
    assert (chosen.token_ids, chosen.parents) == ((0, 1), (0, 1))
    assert (chosen.drafter, chosen.num_steps) == ("mtp", 2)
    assert chosen.expected_tokens == pytest.approx(1 + 0.75 + 0.75 * 0.675)
    assert chosen.expected_ms == pytest.approx(14)


def test_nothing_is_proposed_where_nothing_pays():
    """1.75 / (20 + 1) = 0.083 and 1.95 / 20 = 0.0975 are less than 1 / 10."""
    chosen = new_router(ROWS_COST_AS_MUCH_AS_ROUNDS).propose([COPY], 0, 31, no_head)
    assert (chosen.token_ids, chosen.drafter, chosen.num_steps) == ((), "off", 0)
    assert (chosen.expected_tokens, chosen.expected_ms) == (1, 10)


def test_a_copy_is_as_long_as_it_pays_and_the_head_rests():
    sure = LOOKUP_PRIORS[32]

    def rate(rows: int) -> float:
        return sum(sure**depth for depth in range(rows)) / (9 + rows)

    chosen = new_router().propose([COPY], 0, 31, no_head)
    assert len(chosen.token_ids) + 1 == max(ROW_CLASSES, key=rate) == 16
    assert chosen.token_ids == COPY.continuation[:15]
    assert (chosen.drafter, chosen.num_steps) == ("lookup", 0)


def test_both_share_a_tree_where_each_adds_to_the_other():
    endings = [Ending(6, (5, 6, 7, 8)), Ending(4, (9, 6, 7, 8))]
    chosen = new_router(H200).propose(endings, 0, 31, head(5, 1, 2, 3, 4))
    assert chosen.drafter == "mtp+lookup"
    children = {
        (parent, token_id)
        for parent, token_id in zip(chosen.parents, chosen.token_ids, strict=True)
    }
    row_of_5 = chosen.token_ids.index(5) + 1
    assert chosen.parents[row_of_5 - 1] == 0  # once, though both proposed it
    assert chosen.token_ids.count(5) == 1
    assert {(row_of_5, 1), (row_of_5, 6)} <= children


def test_a_chain_is_of_one_drafter():
    endings = [Ending(6, (5, 6, 7, 8)), Ending(4, (9, 6, 7, 8))]
    chosen = new_router(H200, branches=False).propose(endings, 0, 31, head(5, 1, 2, 3, 4))
    assert chosen.parents == tuple(range(len(chosen.token_ids)))
    assert chosen.drafter in ("mtp", "lookup")


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


def test_a_tree_pays_its_own_price():
    """Two tokens beside each other are worth their rows as a chain's, and not as a tree's."""
    endings = [Ending(12, (5,)), Ending(12, (6,))]
    cheap = replace(H200, tree_ms=H200.chain_ms)
    dear = replace(H200, tree_ms=tuple(tuple(9 * ms for ms in one) for one in H200.chain_ms))
    assert new_router(cheap, max_steps=0).propose(endings, 0, 31, no_head).parents == (0, 0)
    assert new_router(dear, max_steps=0).propose(endings, 0, 31, no_head).parents == (0,)


def test_a_head_that_says_nothing_costs_nothing():
    chosen = new_router().propose([], 0, 31, head())
    assert (chosen.drafter, chosen.num_steps, chosen.expected_ms) == ("off", 0, 10)


def follow(chosen, truth) -> list[int]:
    """The tokens that a target commits which wants ``truth``."""
    rows = {
        (parent, token_id): row
        for row, (parent, token_id) in enumerate(
            zip(chosen.parents, chosen.token_ids, strict=True), start=1
        )
    }
    row, committed = 0, []
    for token_id in truth:
        committed.append(token_id)
        if (row, token_id) not in rows:
            break
        row = rows[row, token_id]
    return committed


def play(router, num_rounds, guess, *, endings=lambda truth: [], draw=None):
    """Rounds of a target that wants other tokens each time; what was proposed in each."""
    draw = draw or random.Random(0)
    proposals = []
    for _ in range(num_rounds):
        truth = [draw.randrange(1000) for _ in range(40)]
        chain = [guess(token_id) for token_id in truth]
        chosen = router.propose(endings(truth), 0, 31, head(*chain))
        router.learn(follow(chosen, truth))
        proposals.append(chosen)
    return proposals


def play_ahead(router, num_rounds, guess):
    """The same, where plain rounds follow each other before what they bring is known.

    What was proposed in each round; None in one that nobody was asked for.
    """
    draw, proposals, is_ahead = random.Random(0), [], False
    for _ in range(num_rounds):
        truth = [draw.randrange(1000) for _ in range(40)]
        if is_ahead:
            proposals.append(None)
            is_ahead = router.goes_on_plainly([], 0, 31)
            router.learn(truth[:1])
            continue
        chosen = router.propose([], 0, 31, head(*map(guess, truth)))
        router.learn(follow(chosen, truth))
        proposals.append(chosen)
        is_ahead = not (chosen.token_ids or chosen.num_steps) and router.expects_no_copy
    return proposals


def wrong(token_id):
    return token_id + 1


def right(token_id):
    return token_id


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


def test_a_round_is_learned_from_once():
    router = new_router()
    router.propose([], 0, 31, head(1, 2))
    router.learn([1, 2, 3])
    before = router._calibration.chain_chances("mtp")
    router.learn([1, 2, 3])
    assert router._calibration.chain_chances("mtp") == before


ENDINGS = st.lists(
    st.builds(
        Ending, st.integers(1, 40), st.lists(st.integers(0, 3), min_size=1, max_size=31).map(tuple)
    ),
    max_size=4,
)
ROUNDS = st.lists(
    st.tuples(
        ENDINGS, st.integers(0, 40_000), st.integers(1, 40),
        st.lists(st.integers(0, 3), min_size=7, max_size=7),
        st.lists(st.integers(0, 3), min_size=1, max_size=32),
    ),
    max_size=12,
)  # fmt: skip
TABLES = st.sampled_from([H200, MILLISECOND_A_ROW, ROWS_COST_AS_MUCH_AS_ROUNDS])


@given(ROUNDS, TABLES, st.integers(0, 7), st.booleans())
def test_any_round_keeps_to_its_room_and_repeats_itself(rounds, table, max_steps, branches):
    """Two routers that saw the same rounds propose the same."""
    one, other = (new_router(table, max_steps=max_steps, branches=branches) for _ in range(2))
    for endings, context_tokens, room, chain, committed in rounds:
        chosen = one.propose(endings, context_tokens, room, head(*chain))
        assert chosen == other.propose(endings, context_tokens, room, head(*chain))
        assert len(chosen.token_ids) <= room
        assert len(chosen.token_ids) + 1 in ROW_CLASSES
        assert chosen.num_steps <= min(max_steps, room)
        assert (chosen.drafter == "off") == (not chosen.token_ids)
        assert branches or chosen.parents == tuple(range(len(chosen.parents)))
        assert 1 <= chosen.expected_tokens <= len(chosen.token_ids) + 1
        one.learn(committed)
        other.learn(committed)


@pytest.mark.timing
@pytest.mark.parametrize("kind", ["head", "copy", "places that differ"])
def test_a_decision_takes_less_than_a_quarter_of_a_millisecond(kind):
    draw = random.Random(0)
    router = new_router(H200)
    for _ in tries():
        taken = decisions(router, kind, draw)
        if (ms := statistics.median(taken) * 1e3) < 0.25:
            return
    pytest.fail(f"it takes {ms:.2f} ms")


def decisions(router, kind, draw) -> list[float]:
    """Seconds of 20 decisions."""
    taken: list[float] = []
    for _ in range(20):
        truth = [draw.randrange(1000) for _ in range(40)]
        places = {"head": 0, "copy": 1, "places that differ": 4}[kind]
        cuts = [31 if kind == "copy" else draw.randrange(1, 12) for _ in range(places)]
        endings = [
            Ending(20 - rank, (*truth[:cut], *(wrong(one) for one in truth[cut:31])))
            for rank, cut in enumerate(cuts)
        ]
        began = time.perf_counter()
        chosen = router.propose(endings, 2000, 31, head(*truth))
        router.learn(follow(chosen, truth))
        taken.append(time.perf_counter() - began)
    return taken


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


def test_what_is_prepared_is_what_is_proposed():
    """Whether lookup then finds what was foreseen, something else or nothing."""
    for endings in ([COPY], [Ending(2, (5, 6))], []):
        for foreseen in ([COPY], []):
            routers = [new_router(), new_router()]
            told = routers[0].prepare(0, 31, foreseen)
            assert routers[0].is_prepared
            ready, plain = (one.propose(endings, 0, 31, head(*range(7))) for one in routers)
            assert ready == plain
            if told is not None and foreseen == endings:
                assert told == ready
            assert not routers[0].is_prepared


def test_nothing_is_told_ahead_of_a_round_in_which_a_drafter_is_tried():
    """What was told may be on its way already when the try is made."""
    router, draw, promised = new_router(H200), random.Random(0), []
    for _ in range(120):
        truth = [draw.randrange(1000) for _ in range(40)]
        told = router.prepare(0, 31, [])
        chosen = router.propose([], 0, 31, head(*map(wrong, truth)))
        assert told in (None, chosen)
        promised.append((told is not None, chosen.num_steps > 0))
        router.learn(follow(chosen, truth))
    assert {(True, False), (False, True)} == set(promised)


def test_what_a_round_taught_counts_in_its_order():
    """Two rounds were said before the first of them is learned from."""
    router = new_router(H200)
    for token_id in (1, 2):
        router.propose([], 0, 31, head(token_id))
    router.learn([1, 9])
    assert router._calibration.chain_chances("mtp")[0] > 0.75
    router.learn([9])
    assert router._calibration.chain_chances("mtp")[0] < 0.75
