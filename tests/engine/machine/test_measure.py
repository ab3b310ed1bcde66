"""What memory gives is the fastest pass so far; a busy machine never lowers it."""

import pytest
import torch

from engine.machine import measure
from engine.machine.measure import measure_again, read_bandwidth
from kernels.common.timing import summarise


@pytest.fixture
def passes(monkeypatch):
    """GB/s of the passes of each measurement to come; no memory is read."""
    given: list[list[float]] = []

    def time_calls(calls, device, repetitions):
        assert (len(calls), device) == (1, "cpu")
        return summarise([measure.CPU_READ_BYTES / 1e3 / one for one in given.pop(0)], 1)

    monkeypatch.setattr(measure, "_fastest", {})
    monkeypatch.setattr(measure, "CPU_READ_BYTES", 1024)
    monkeypatch.setattr(measure, "time_calls", time_calls)
    return given


def test_the_fastest_pass_counts(passes):
    passes.append([4.0, 12.0, 8.0, 3.8, 5.0])
    assert read_bandwidth("cpu").gb_s == pytest.approx(12.0)


def test_it_is_measured_once_and_kept(passes):
    passes.append([10.0])
    first = read_bandwidth("cpu")
    assert read_bandwidth("cpu") is first


def test_a_quieter_machine_raises_it_and_a_busier_one_does_not_lower_it(passes, monkeypatch):
    passes += [[4.0], [12.0], [3.0]]
    times = iter(["at noon", "at one", "at two"])
    monkeypatch.setattr(measure, "now", lambda: next(times))
    assert read_bandwidth("cpu").gb_s == pytest.approx(4.0)
    raised = measure_again("cpu")
    assert (raised.gb_s, raised.measured_at) == (pytest.approx(12.0), "at one")
    assert measure_again("cpu") is raised
    assert read_bandwidth("cpu") is raised


def test_each_number_of_threads_has_a_figure_of_its_own(passes, monkeypatch):
    passes += [[4.0], [7.0]]
    found = []
    for threads in (1, 2, 1):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        found.append(read_bandwidth("cpu").gb_s)
    assert found == pytest.approx([4.0, 7.0, 4.0])


def test_memory_is_really_read(monkeypatch):
    monkeypatch.setattr(measure, "_fastest", {})
    found = read_bandwidth("cpu")
    assert 0.1 < found.gb_s < 10_000
    assert found.measured_at.endswith("+00:00")
