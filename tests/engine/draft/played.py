"""Routers for tests, and the rounds that they play against targets whose tokens are known."""

import random

from engine.draft.calibration import FIRST_GAPS, Calibration
from engine.draft.decision import Weighing
from engine.draft.ngrams import Ending
from engine.draft.price_table import PriceTable, shipped_prices
from engine.draft.prices import Prices
from engine.draft.router import Router

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
