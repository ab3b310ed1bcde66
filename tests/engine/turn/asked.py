"""Turns of a fake model, asked with a few words."""

from engine.types import Request, RoundEnded, Sampling, TurnEnded
from tests.fakes.model import run

GREEDY = Sampling(temperature=0.0)
PROMPT = tuple(range(40, 50))


def counting(context) -> int:
    """Each token is one more than the last, within the printable bytes."""
    return 33 + (context[-1] - 32) % 90


def ask(engine, **options):
    options = {"prompt_ids": PROMPT, "sampling": GREEDY, "drafter": "off", **options}
    events = run(engine, Request(**options))
    assert isinstance(events[-1], TurnEnded)
    assert sum(isinstance(one, TurnEnded) for one in events) == 1
    return events, events[-1].record


def rounds_of(events):
    return [one.record for one in events if isinstance(one, RoundEnded)]
