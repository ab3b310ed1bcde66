"""Rounds lie end to end, and every moment of them belongs to one phase."""

import pytest
import torch

from engine.turn import clock as timed
from engine.turn.clock import clock_for


@pytest.fixture
def at(monkeypatch):
    """Set the time in seconds: ``at(3.5)``."""
    now = [0.0]
    monkeypatch.setattr(timed.time, "perf_counter", lambda: now[0])
    return lambda seconds: now.__setitem__(0, seconds)


def test_a_round_lasts_until_the_next_begins(at):
    at(1.0)
    first = clock_for(torch.device("cpu"))
    for second, phase in ((1.5, "verify"), (3.5, "accept"), (3.75, "host")):
        at(second)
        first.enter(phase)
    at(4.75)
    last = first.next()
    at(5.75)
    last.enter("verify")
    at(6.0)
    last.enter("host")
    at(99.0)
    assert first.ms() == {"draft": 500, "verify": 2000, "accept": 250, "host": 1000}
    assert last.ms() == {"draft": 1000, "verify": 250, "accept": 0, "host": 0}


def test_a_phase_that_comes_again_adds_up(at):
    clock = clock_for(torch.device("cpu"))
    for second, phase in ((1.0, "verify"), (2.0, "accept"), (4.0, "verify"), (4.5, "host")):
        at(second)
        clock.enter(phase)
    assert clock.ms() == {"draft": 1000, "verify": 1500, "accept": 2000, "host": 0}
