"""`bench_kernels` times what is green, and says what a reader of its figures must know."""

import json
from dataclasses import replace

import pytest
import torch

from engine.bench import kernels as bench
from engine.bench import subjects
from engine.check.families import RedKernelError, choose_families
from engine.errors import MemoryPlanError, RequestError
from engine.machine import facts
from engine.machine.measure import ReadBandwidth
from kernels.common.family import load_families
from kernels.common.peers import Peer, library_copy
from kernels.common.problem import Bar, case_calls
from kernels.common.timing import summarise
from tests.fakes import family as fake

TIMES_US = {1: 10.0, 16: 20.0}


@pytest.fixture
def ran():
    return fake.Ran()


@pytest.fixture
def measure(monkeypatch):
    """Bench families on a machine that reads 100 GB/s; no clock is asked."""
    asked = []
    monkeypatch.setattr(bench, "read_bandwidth", lambda device: ReadBandwidth(100.0, ""))

    def timed(report, family, calls, device):
        report.require_green(family, "torch")
        asked.append(family)
        for call in calls:
            call()
        return summarise([20.0 * len(calls)], len(calls))

    monkeypatch.setattr(bench, "time_checked", timed)

    def call(*families, rows=(1,), shape="demo", peers=False, full_check=False):
        return bench.bench_kernels(
            families, shape, rows, device="cpu", with_peers=peers, full_check=full_check,
            progress=lambda _: None,
        )  # fmt: skip

    call.timed = asked
    return call


def with_problem(ran, **fields):
    family = fake.family(ran)
    return replace(family, timed=lambda sizes, rows: (fake.problem(ran, rows, **fields),))


def test_figures_follow_from_the_time_and_the_bytes(measure, ran):
    (one,) = measure(with_problem(ran, num_bytes=1_000_000))["problems"]
    assert (one["us"], one["low_us"], one["high_us"]) == (20.0, 20.0, 20.0)
    assert (one["gb_s"], one["share"]) == (50.0, 0.5)
    assert one["floor_us"] == 10.0
    assert one["cold"]
    assert one["copies"] * one["bytes"] >= 4 * (32 << 20)


def test_the_result_is_json_and_says_what_it_was_measured_on(measure, ran):
    result = measure(fake.family(ran), peers=True)
    assert json.loads(json.dumps(result)) == result
    assert set(result) == {
        "date", "shape", "rows", "machine", "read_gb_s", "launch_us", "checks", "nothing_to_time",
        "problems",
    }  # fmt: skip
    machine = result["machine"]
    assert {"device", "gpu", "driver", "torch", "triton", "clocks", "cache_bytes"} <= set(machine)
    assert (machine["device"], result["launch_us"]) == ("cpu", None)
    assert result["checks"] == {"fake": {"proofs": 3, "red": 0, "extent": "timed cases"}}
    assert set(result["problems"][0]) == {
        "family", "op", "name", "format", "rows", "sizes", "tile", "bytes", "copies", "cold", "us",
        "low_us", "high_us", "gb_s", "share", "floor_us", "bars", "peers",
    }  # fmt: skip


def wrong(inputs, outputs, tile=None):
    fake.run(inputs, outputs, fake.WRONG)


def test_a_red_family_is_not_timed(measure, ran):
    red = fake.family(ran, run_default=wrong, run=wrong)
    with pytest.raises(RedKernelError, match="fake is red and is not timed: double .*beyond"):
        measure(red)
    assert not measure.timed
    assert not ran.tiles


def test_red_cases_that_are_not_timed_count_in_a_full_check_only(measure, ran):
    family = fake.family(ran)
    hostile = replace(fake.case(2), tolerance=replace(fake.case(2).tolerance, relative=-1.0))
    family = replace(family, cases=(hostile,))
    assert measure(family)["problems"]
    with pytest.raises(RedKernelError):
        measure(family, full_check=True)


def test_a_problem_without_a_case_asks_for_the_whole_check(measure, ran):
    family = with_problem(ran, case=None)
    assert measure(family)["checks"]["fake"]["proofs"] == 3
    red = replace(family, ops=fake.family(ran, run_default=wrong).ops)
    with pytest.raises(RedKernelError):
        measure(red)


def test_a_problem_runs_with_the_tile_that_serves_it(measure, ran, monkeypatch):
    family = fake.family(ran, (fake.PRESENT, fake.FAST))
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda *_: fake.CAPABILITY)
    row = {"op": "double", "width": 8, "does": "sound", "us_a_call": 5.0, "order": "a"}
    monkeypatch.setattr(subjects, "read_table", lambda name, capability: (row,))
    (one,) = subjects.subjects_of([family], "demo", [1], "cuda")
    assert one.tile == fake.FAST
    (one,) = subjects.subjects_of([family], "demo", [1], "cpu")
    assert one.tile is None


def test_problems_stand_by_name_and_then_by_rows():
    (norm,) = load_families(["norm"])
    found = subjects.subjects_of([norm], "27b", [1, 16, 1], "cpu")
    names = [(one.problem.name, one.problem.rows) for one in found]
    assert names[:4] == [
        *(("residual + norm", 1), ("residual + norm", 16), ("norm", 1), ("norm", 16)),
    ]
    assert len(names) == len(set(names))
    sizes = {one.problem.name: dict(one.problem.sizes) for one in found if one.problem.rows == 16}
    assert sizes["query norm"] == {"T": 16 * 24, "D": 256}
    assert sizes["gated norm"] == {"T": 16, "H": 48, "D": 128}


def test_peers_are_timed_or_named_with_the_reason(measure, ran):
    def fails(num_copies, device):
        raise RuntimeError("no such kernel\nand more")

    peers = (
        library_copy(1 << 20),
        Peer("humming", 1 << 20, fails, "no-such-humming", "0.1.20", ("cpu",)),
        Peer("cublas", 1 << 20, fails),
        Peer("broken", 1 << 20, fails, devices=("cpu",)),
        Peer("other", 1 << 20, lambda *_: [lambda: None] * 2, "torch", "0.1", ("cpu",)),
    )
    (one,) = measure(with_problem(ran, peers=peers), peers=True)["problems"]
    copy, *absent, other = one["peers"]
    assert copy["us"] > 0
    assert copy["speed_up"] == copy["us"] / one["us"]
    assert [peer["absent"] for peer in absent] == [
        "no-such-humming is not installed; pip install no-such-humming==0.1.20",
        "cublas does not run on this device",
        "broken failed: RuntimeError: no such kernel",
    ]
    assert other["note"] == f"torch is {torch.__version__}; bars are stated against 0.1"
    (one,) = measure(with_problem(ran, peers=peers))["problems"]
    assert one["peers"] == []


def test_bars_are_judged_on_a_gpu_only(measure, ran):
    problem = with_problem(ran, bar=Bar(max_us=30.0), num_bytes=1_000_000)
    (one,) = measure(problem)["problems"]
    assert one["bars"] == [{"bar": "<= 30 us", "met": None, "gpu": None}]
    (family,) = [problem]
    about = family.timed(None, 1)[0]
    seen = bench.Measured(us=20.0, share=0.5, floor_us=10.0)
    assert bench._bars(about, seen, "cuda") == [{"bar": "<= 30 us", "met": True, "gpu": None}]


def test_a_bar_of_another_gpu_is_not_judged(ran, monkeypatch):
    monkeypatch.setattr(bench, "machine_facts", lambda device: {"gpu": "NVIDIA GB10"})
    about = fake.problem(ran, 1, bar=Bar(max_us=30.0, gpu="H200"))
    seen = bench.Measured(us=20.0, share=0.5, floor_us=10.0)
    assert bench._bars(about, seen, "cuda") == [{"bar": "<= 30 us", "met": None, "gpu": "H200"}]


def test_what_cannot_be_had_is_refused_in_a_sentence(measure, ran, monkeypatch):
    family = fake.family(ran)
    with pytest.raises(RequestError, match=r"no shape '28b'\. Did you mean '27b'"):
        measure(family, shape="28b")
    with pytest.raises(RequestError, match="1 to 65,536 rows, not 0"):
        measure(family, rows=(0,))
    with pytest.raises(RequestError, match="nothing to time in fake"):
        measure(replace(family, timed=None))
    with pytest.raises(RequestError, match=r"no kernel family 'nrom'\. Did you mean 'norm'\?"):
        choose_families(["nrom"])
    monkeypatch.setattr(bench, "available_bytes", lambda device: 1000)
    with pytest.raises(MemoryPlanError, match="double 1 row needs [0-9.]+ MB"):
        measure(family)


def test_a_family_with_nothing_to_time_is_named_beside_the_others(measure, ran):
    empty = replace(fake.family(ran), name="empty", timed=None)
    assert measure(empty, fake.family(ran))["nothing_to_time"] == ["empty"]


def test_families_are_loaded_once_each():
    assert [one.name for one in choose_families(["norm", "norm"])] == ["norm"]


def test_every_timed_norm_runs_on_the_torch_path():
    (norm,) = load_families(["norm"])
    for one in subjects.subjects_of([norm], "demo", [2], "cpu"):
        calls = one.problem.make_calls(2, "cpu")
        assert len(calls) == 2
        for call in calls:
            call(None)


def test_calls_of_a_case_have_tensors_of_their_own():
    seen = []
    case = fake.case(2)
    for call in case_calls(case, lambda i, o, tile: seen.append((i, o, tile)), 3, "cpu"):
        call("tile")
    pointers = {tensors[name].data_ptr() for i, o, _ in seen for tensors, name in
                ((i, "x"), (o, "out"))}  # fmt: skip
    assert len(pointers) == 6
    assert all(torch.equal(i["x"], seen[0][0]["x"]) for i, _, _ in seen)


def test_clocks_are_what_the_driver_tells(monkeypatch):
    class NoAnswerError(Exception):
        pass

    def clock(handle, kind):
        if kind == "memory":
            raise NoAnswerError
        return 1980

    nvml = type("Nvml", (), {
        "NVMLError": NoAnswerError, "NVML_CLOCK_SM": "sm", "NVML_CLOCK_MEM": "memory",
        "NVML_TEMPERATURE_GPU": 0, "nvmlInit": lambda: None, "nvmlShutdown": lambda: None,
        "nvmlDeviceGetHandleByIndex": lambda index: index, "nvmlDeviceGetClockInfo": clock,
        "nvmlDeviceGetMaxClockInfo": clock, "nvmlDeviceGetTemperature": lambda handle, kind: 40,
    })  # fmt: skip
    monkeypatch.setitem(facts.sys.modules, "pynvml", nvml)
    assert facts.read_clocks() == {"sm_mhz": 1980, "max_sm_mhz": 1980, "temperature_c": 40}
    monkeypatch.setitem(facts.sys.modules, "pynvml", None)
    assert facts.read_clocks() == {}
