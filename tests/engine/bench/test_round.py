"""The figures of a bench of rounds follow from the times of its rounds and from nothing else."""

from types import SimpleNamespace

import pytest

from engine.bench import round as bench
from engine.bench.launches import Kernels
from engine.bench.replay import Replayed

BYTES = {"weights": 4_000_000, "head": 1_000_000, "state": 500_000, "kv": 500_000, "drafter": 9_000}
PLAIN = SimpleNamespace(chosen=[])
FORESEEN = [(1.0, 2.0, 0.5, 0.5), (3.0, 9.0, 0.0, 0.0), (1.0, 4.0, 0.6, 0.4)]
UNFORESEEN = [(2.0, 2.0, 0.0, 0.0), (1.0, 3.0, 0.0, 0.0), (8.0, 2.0, 0.0, 0.0)]


def rounds(times):
    return [Replayed(PLAIN, [], dict(zip(bench.PHASES, one, strict=True))) for one in times]


def timing(device="cuda", kernels=None):
    """Rounds of four rows behind 100 tokens; what their bytes were counted for, and the figures."""
    counted = []

    def traffic(*arguments):
        counted.append(arguments)
        return BYTES

    drawn = SimpleNamespace(
        path=SimpleNamespace(traffic_of=lambda _: traffic),
        model=SimpleNamespace(device=SimpleNamespace(type=device)),
        read_gb_s=10.0,
    )
    replay = SimpleNamespace(start=SimpleNamespace(length=100))
    timed = bench._Timed(rounds(FORESEEN), rounds(UNFORESEEN))
    return bench._timing(drawn, replay, 4, timed, kernels), counted


def test_a_round_is_the_median_of_those_that_were_foreseen():
    found, _ = timing()
    assert (found.rows, found.round_ms, found.best_ms) == (4, 6.0, 4.0)
    assert found.ms == {"draft": 1.0, "verify": 4.0, "accept": 0.5, "host": 0.4}


def test_bytes_are_those_of_the_round_in_the_middle_over_the_rounds_time():
    found, counted = timing()
    assert counted == [(100 + (bench.NUM_WARM_UP + 1) * 4, 4, 4, 0)]
    assert found.num_bytes == BYTES
    assert found.gb_s == pytest.approx(sum(BYTES.values()) / 6e-3 / 1e9)
    assert found.share == pytest.approx(found.gb_s / 10.0)
    verify, draft, host = (found.phases[one] for one in ("verify", "draft", "host"))
    assert (verify.num_bytes, draft.num_bytes, host.num_bytes) == (6_000_000, 9_000, 0)
    assert verify.gb_s == pytest.approx(6_000_000 / 4e-3 / 1e9)
    assert (verify.share, host.gb_s) == (pytest.approx(verify.gb_s / 10.0), 0.0)


def test_a_gpu_waits_for_what_is_no_verify():
    found, _ = timing()
    assert found.host_share == pytest.approx(1 - 4.0 / 6.0)  # of 1/2, 1/4 and 1/3
    assert found.unforeseen_share == pytest.approx(1 - 2.0 / 4.0)  # of 1/2, 1/4 and 4/5
    on_cpu, _ = timing("cpu")
    assert (on_cpu.host_share, on_cpu.unforeseen_share) == (None, None)


def test_kernels_are_those_of_the_verify():
    found, _ = timing(kernels=Kernels(17, span_ms=4.0, gaps_ms=1.0, places=()))
    assert (found.launches, found.gap_share, found.kernels) == (17, 0.25, ())
    assert {name: one.launches for name, one in found.phases.items()} == {
        "draft": None, "verify": 17, "accept": None, "host": None,
    }  # fmt: skip
    blind, _ = timing()
    assert (blind.launches, blind.gap_share, blind.kernels) == (None, None, None)


@pytest.mark.parametrize("foresees", [True, False])
def test_rounds_that_warm_up_are_run_and_not_timed(foresees):
    asked = []

    def run(verifier, num_rows, num_rounds, *, foresees):
        asked.append((verifier, num_rows, num_rounds, foresees))
        return rounds((float(at), 1.0, 0.0, 0.0) for at in range(num_rounds))

    replay = SimpleNamespace(rounds=run)
    timed = bench._time_rows(replay, "verifier", 4, 3, foresees=foresees)
    assert asked == [("verifier", 4, bench.NUM_WARM_UP + 3, foresees)]
    assert [one.ms["draft"] - bench.NUM_WARM_UP for one in timed] == [0, 1, 2]
