"""In a world of known prices and chances, the router keeps up with whoever knows them best."""

import random
from dataclasses import dataclass, replace
from functools import cache

import pytest

from engine.draft.calibration import Calibration
from engine.draft.ngrams import NgramIndex
from engine.draft.prices import Prices, PriceTable, shipped_prices
from engine.draft.router import Router

NUM_TOKENS = 1500
H200 = shipped_prices("sm_90", "nvfp4")
DEAR_ROWS = PriceTable("nvfp4", (1, 4, 16, 32), (60.0, 90.0, 300.0, 700.0), 1024, 0.0, 3.0)
FIXED = (("off", 0), ("mtp", 1), ("mtp", 3), ("mtp", 7), ("lookup", 7), ("lookup", 15))


@dataclass(frozen=True)
class World:
    """A text, ``passages`` of its prompt repeated or not, and a head of some skill."""

    passages: bool
    skill: float
    prices: PriceTable

    def texts(self) -> tuple[list[int], list[int]]:
        draw = random.Random(0)
        prompt = draw.choices(range(5000), k=600)
        answer: list[int] = []
        while len(answer) < NUM_TOKENS + 50:
            start = draw.randrange(500)
            answer += draw.choices(range(5000), k=draw.randint(1, 5))
            answer += prompt[start : start + draw.randint(5, 80)] if self.passages else []
        return prompt, answer


class Run:
    """A turn in a world; the clock counts what its true prices say."""

    def __init__(self, world: World) -> None:
        self.world = world
        prompt, self.answer = world.texts()
        self.index = NgramIndex()
        self.index.extend(prompt)
        self.position = self.ms = 0
        self.draw = random.Random(1)

    def guess(self, num_steps):
        truth = self.answer[self.position : self.position + num_steps]
        return [one if self.draw.random() < self.world.skill else -1 for one in truth]

    def round(self, token_ids, parents, num_steps) -> tuple[list[int], dict[str, float]]:
        """Verify; what was committed, and how long it took."""
        ways = zip(parents, token_ids, strict=True)
        rows = {way: row for row, way in enumerate(ways, start=1)}
        row: int | None = 0
        committed: list[int] = []
        while row is not None:
            committed.append(self.answer[self.position + len(committed)])
            row = rows.get((row, committed[-1]))
        self.index.extend(committed)
        self.position += len(committed)
        prices = self.world.prices
        ms = {"draft": num_steps * prices.mtp_ms, "verify": prices.verify(len(token_ids) + 1)}
        self.ms += sum(ms.values())
        return committed, ms

    @property
    def tok_s(self) -> float:
        return self.position / self.ms * 1e3


def routed(world: World, believed: PriceTable) -> float:
    run, prices = Run(world), Prices(believed)
    router = Router(prices, Calibration(7), max_steps=7, branches=True)
    while run.position < NUM_TOKENS:
        chosen = router.propose(run.index.endings(31)[:4], 0, 31, run.guess)
        committed, ms = run.round(chosen.token_ids, chosen.parents, chosen.num_steps)
        router.learn(committed)
        prices.observe(len(chosen.token_ids) + 1, 0, chosen.num_steps, ms)
    return run.tok_s


@cache
def fixed(world: World, drafter: str, num_tokens: int) -> float:
    run = Run(world)
    while run.position < NUM_TOKENS:
        found = run.index.continuations(num_tokens) if drafter == "lookup" else []
        chain = run.guess(num_tokens) if drafter == "mtp" else (found or [()])[0]
        run.round(chain, range(len(chain)), len(chain) if drafter == "mtp" else 0)
    return run.tok_s


@pytest.mark.parametrize("skill", [0.0, 0.3, 0.6, 0.9])
@pytest.mark.parametrize("passages", [False, True])
@pytest.mark.parametrize("prices", [H200, DEAR_ROWS], ids=["H200", "dear rows"])
def test_no_fixed_drafter_is_faster(prices, passages, skill):
    """5 % is what it may cost, in 1,500 tokens, to find out which one is right."""
    world = World(passages, skill, prices)
    assert routed(world, prices) > 0.95 * max(fixed(world, *one) for one in FIXED)


def test_where_texts_mix_copies_and_news_it_beats_each_of_them():
    world = World(passages=True, skill=0.9, prices=H200)
    assert routed(world, H200) > 1.2 * max(fixed(world, *one) for one in FIXED)


@pytest.mark.parametrize("skill", [0.0, 0.6, 0.9])
@pytest.mark.parametrize("passages", [False, True])
def test_wrong_prices_are_mended_by_the_rounds(passages, skill):
    """Shipped for another machine: ten times too cheap, and much too cheap for many rows."""
    world = World(passages, skill, DEAR_ROWS)
    assert routed(world, H200) > 0.93 * routed(world, DEAR_ROWS)


def test_prices_that_are_wrong_alike_cost_nothing():
    world = World(passages=True, skill=0.6, prices=H200)
    doubled = replace(
        H200, verify_ms=tuple(2 * ms for ms in H200.verify_ms), mtp_ms=2 * H200.mtp_ms
    )
    assert routed(world, doubled) > 0.98 * routed(world, H200)
