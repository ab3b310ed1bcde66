"""A/B in one process: the same weights and rounds, equal tokens, and no verdict from noise."""

import json
from dataclasses import asdict, replace
from types import SimpleNamespace

import pytest
import torch

from engine.bench import ab as bench
from engine.bench.ab import SideTiming, judge, spread_of_halves
from engine.bench.switches import parse_switch
from engine.compute_path import ComputePath
from engine.errors import RequestError, SettingsError
from engine.model.config import SHAPE_DEMO, SHAPES, hybrid_layers
from engine.model.packing import Launching
from engine.model.random import random_model
from engine.profile import load_profiles
from engine.settings.declared import KernelSettings, Settings

FP8 = load_profiles()["fp8"]
PACKED = ComputePath(Launching((9, 0)))
SMALL = replace(SHAPE_DEMO, layer_kinds=hybrid_layers(4), num_mtp_layers=0, vocab_size=512)
GRAPHS_OFF = "kernels.graphs=off"


@pytest.fixture
def compare(monkeypatch):
    """Compare on a small packed model: ``compare(rows=..., spoil=...)``."""
    monkeypatch.setattr(bench, "choose_compute_path", lambda *_: PACKED)
    monkeypatch.setitem(SHAPES, "demo", SMALL)
    monkeypatch.setattr(bench, "NUM_PASSES", 2)

    def call(switch=GRAPHS_OFF, *, rows=2, rounds=2):
        return bench.bench_ab(
            "demo", FP8, parse_switch(switch, Settings()), device="cpu", num_rows=rows,
            num_rounds=rounds, context_tokens=16, progress=lambda _: None, settings=Settings(),
        )  # fmt: skip

    return call


@pytest.fixture
def spoil(monkeypatch):
    """Change the final norm of the candidate: ``spoil(function of its weight)``."""
    relaunched = bench.relaunched

    def by(change):
        def spoilt(model, launching):
            found = relaunched(model, launching)
            if not launching.graphs:
                found.weights = replace(found.weights, norm=change(found.weights.norm))
            return found

        monkeypatch.setattr(bench, "relaunched", spoilt)

    return by


@pytest.mark.parametrize("switch", [GRAPHS_OFF, "kernels.overlap=on"])
def test_both_sides_choose_the_same_from_the_same_bits(compare, switch):
    result = compare(switch)
    assert (result["fault"], result["equal_tokens"], result["equal_logits"]) == ("", True, True)
    assert result["switch"] == switch.partition("=")[0]
    assert result["path"] != result["candidate_path"]
    base, candidate = result["base"], result["candidate"]
    assert {base.value, candidate.value} == {"on", "off"}
    for one in (base, candidate):
        assert 0 < one.low_ms <= one.median_ms <= one.high_ms
        assert len(one.passes_ms) == 2
    assert result["difference_ms"] == candidate.median_ms - base.median_ms
    assert result["resolved"] is (abs(result["difference_ms"]) > result["spread_ms"])
    json.dumps(result | {"base": asdict(base), "candidate": asdict(candidate)})


def test_other_tokens_are_a_fault_and_nothing_is_timed(compare, spoil):
    spoil(lambda weight: -2 - weight)
    result = compare()
    assert "Round 0 chose" in result["fault"]
    assert not result["equal_tokens"]
    assert "resolved" not in result


def test_other_logits_behind_the_same_tokens_are_a_fault_too(compare, spoil):
    spoil(lambda weight: weight + 2**-6)
    result = compare(rows=1, rounds=1)
    assert result["equal_tokens"]
    assert not result["equal_logits"]
    assert result["fault"] == ("Round 0 chose the same tokens from other logits, first in row 0.")


def test_a_wrong_round_of_a_timed_pass_is_a_fault(compare, monkeypatch):
    timed = bench._time

    def later_wrong(replay, sides, num_rows, num_rounds):
        replay.truth[-1] += 1
        return timed(replay, sides, num_rows, num_rounds)

    monkeypatch.setattr(bench, "_time", later_wrong)
    fault = compare()["fault"]
    assert "Round 1 of pass 0 chose" in fault
    assert "in base, and plain decode chose" in fault


def test_relaunched_weights_are_the_same_memory():
    model = random_model(SMALL, FP8.formats, device="cpu", packer=PACKED.new_packer())
    other = bench.relaunched(model, Launching((9, 0), overlap=True))
    mine, its = model.weights.layers[0], other.weights.layers[0]
    assert its.mlp.down.weight is mine.mlp.down.weight
    assert (mine.mlp.down.overlap, its.mlp.down.overlap) == (False, True)
    assert its.mlp.gate.whole is its.mlp.up.whole
    assert its.mlp.gate.whole.overlap
    assert other.weights.head.overlap
    assert other.weights.embedding is model.weights.embedding
    assert type(other) is type(model)


def test_only_what_flips_in_process_is_taken():
    for text, words in (
        ("kernels.graphs", "expected NAME=VALUE. Known are: kernels.commit_in_verify"),
        ("kernels.graph=off", "There is no setting 'kernels.graph'. Did you mean 'kernels.graphs'"),
        ("kernels.linear=reference", "weights are packed for it while they load"),
        ("model.threads=2", "it decides what is loaded. Known are: kernels.commit_in_verify"),
        ("chat.theme=light", "no round depends on it"),
        ("kernels.graphs=on", "is on already.*Write --switch kernels.graphs=off"),
    ):
        with pytest.raises(RequestError, match=words):
            parse_switch(text, Settings())
    with pytest.raises(SettingsError, match="expected on or off"):
        parse_switch("kernels.graphs=x", Settings())
    flip = parse_switch("kernels.graphs = on", Settings(kernels=KernelSettings(graphs=False)))
    assert (flip.switch.name, flip.base, flip.candidate) == ("kernels.graphs", False, True)


def test_the_reference_path_has_nothing_to_flip():
    with pytest.raises(RequestError, match="changes nothing here: reference"):
        bench.bench_ab(
            "demo", FP8, parse_switch(GRAPHS_OFF, Settings()), device="cpu", num_rows=1,
            num_rounds=1, context_tokens=16, progress=lambda _: None, settings=Settings(),
        )  # fmt: skip


def test_the_spread_is_what_any_two_halves_differ_by():
    assert spread_of_halves([[1.0], [1.0], [1.0], [1.0]]) == 0.0
    # the halves (1, 1.2) and (1.4, 1.6): drift counts, whichever passes it fell into
    assert spread_of_halves([[1.0], [1.4], [1.2], [1.6]]) == pytest.approx(0.4)


def side(median_ms, spread_ms):
    return SideTiming("on", median_ms, median_ms, median_ms, spread_ms, (median_ms,))


@pytest.mark.parametrize(
    ("candidate_ms", "spread_ms", "resolved"),
    [(0.9, 0.05, True), (1.2, 0.05, True), (1.04, 0.05, False), (0.96, 0.05, False)],
)
def test_a_difference_within_the_spread_is_not_resolved(candidate_ms, spread_ms, resolved):
    found = judge(side(1.0, 0.01), side(candidate_ms, spread_ms))
    assert found["resolved"] is resolved
    assert found["difference_ms"] == pytest.approx(candidate_ms - 1.0)
    assert judge(side(1.0, spread_ms), side(candidate_ms, 0.01))["resolved"] is resolved


def test_passes_alternate_base_first_and_candidate_first(monkeypatch):
    """What drifts with time then falls on both."""
    monkeypatch.setattr(bench, "NUM_PASSES", 4)
    order = []

    def rounds(verifier, num_rows, num_rounds):
        order.append(verifier)
        ms = {"draft": 1.0, "verify": float(len(order))}
        return [SimpleNamespace(agrees=True, ms=ms)] * num_rounds

    sides = [bench._Side(one, True, PACKED, one, []) for one in ("base", "candidate")]
    assert bench._time(SimpleNamespace(rounds=rounds), sides, 2, 3) == ""
    assert order == ["base", "candidate", "candidate", "base"] * 2
    assert sides[0].passes == [[one] * 3 for one in (2.0, 5.0, 6.0, 9.0)]
    assert sides[1].passes == [[one] * 3 for one in (3.0, 4.0, 7.0, 8.0)]


def test_a_side_is_told_by_its_median_and_by_what_eight_rounds_of_ten_keep_to():
    passes = [[float(ms) for ms in range(20, 10, -1)], [float(ms) for ms in range(1, 11)]]
    found = bench._timing(bench._Side("base", True, PACKED, None, passes))
    assert (found.value, found.median_ms) == ("on", 10.5)
    assert (found.low_ms, found.high_ms) == (3.0, 18.0)
    assert (found.passes_ms, found.spread_ms) == ((15.5, 5.5), 10.0)


def test_logits_are_compared_as_bytes():
    zero = torch.zeros(4)
    assert torch.equal(zero, -zero)
    proof = bench._Proof((1,), ("a",))
    assert not bench._difference([[proof], [proof]], keeps_bits=True)
    other = bench._Proof((1,), ("b",))
    assert bench._difference([[proof], [other]], keeps_bits=True)
    assert not bench._difference([[proof], [other]], keeps_bits=False)
