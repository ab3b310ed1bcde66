"""Rounds lie end to end, and every moment of them belongs to one phase."""

import pytest
import torch

from engine.turn import clock as timed
from engine.turn.clock import DeviceClock, clock_for


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


class Event:
    """A moment of a device that is set by hand."""

    now = 0.0

    def __init__(self):
        self.at = Event.now

    def synchronize(self):
        """It has been reached."""

    def elapsed_time(self, other):
        return other.at - self.at


class Events:
    """Records events, and takes back those that nobody looks at any more."""

    def __init__(self):
        self.spare = []

    def record(self):
        return Event()

    def take_back(self, events):
        self.spare += events


@pytest.fixture
def moment(at, monkeypatch):
    """Set the time of host and device, in milliseconds."""
    monkeypatch.setattr(Event, "now", 0.0)

    def set_both(host, device=None):
        at(host / 1e3)
        Event.now = host if device is None else device

    return set_both


def test_what_a_gpu_waits_for_counts_where_it_waits(moment):
    """The host sees the end of the rows at 12, two behind the GPU."""
    events = Events()
    first = DeviceClock(events)
    moment(1)
    first.enter("verify")
    moment(2, 10)  # asked for behind the rows, which end at 10
    first.enter("accept")
    moment(12)
    first.enter("host")
    moment(13)
    second = first.next()
    moment(16, 16.5)
    second.enter("verify")
    moment(17, 20)
    second.enter("accept")
    moment(21)
    second.enter("host")
    assert first.ms() == pytest.approx({"draft": 1, "verify": 9, "accept": 2.5, "host": 1})
    assert second.ms() == pytest.approx({"draft": 3, "verify": 3.5, "accept": 0, "host": 0})
    assert len(events.spare) == 5
    assert first.ms()["verify"] == 9


def test_where_a_round_runs_ahead_the_host_costs_nothing(moment):
    first = DeviceClock(Events())
    moment(1)
    first.enter("verify")
    moment(2, 10)
    first.enter("accept")
    moment(3)
    first.enter("host")
    second = first.next(is_ahead=True)
    moment(4, 10.25)
    second.enter("verify")
    moment(5, 20)
    second.enter("accept")
    assert second.ms() == pytest.approx({"draft": 0, "verify": 9.75, "accept": 0, "host": 0})
    assert first.ms() == pytest.approx({"draft": 1, "verify": 9, "accept": 0.25, "host": 0})
