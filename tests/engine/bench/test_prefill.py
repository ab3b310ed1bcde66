"""`bench_prefill` reads what a turn would read, and refuses what does not fit."""

import json
from dataclasses import asdict, replace
from types import SimpleNamespace

import pytest
import torch

from engine.bench import model
from engine.bench import prefill as bench
from engine.compute_path import ComputePath, KernelError
from engine.errors import MemoryPlanError, RequestError
from engine.model import memory
from engine.model.config import SHAPE_27B, SHAPE_DEMO, SHAPES, hybrid_layers
from engine.model.footprint import weight_bytes
from engine.model.packing import Launching
from engine.model.serving_memory import kept_bytes, passing_bytes
from engine.profile import load_profiles
from engine.settings.declared import Settings

FP8 = load_profiles()["fp8"]
PACKED = ComputePath(Launching((9, 0)))
SMALL = replace(SHAPE_DEMO, layer_kinds=hybrid_layers(4), num_mtp_layers=0, vocab_size=512)


@pytest.fixture
def measure(monkeypatch):
    """Bench a small packed model: ``measure([tokens, ...])``."""
    monkeypatch.setattr(bench, "choose_compute_path", lambda *_: PACKED)
    monkeypatch.setitem(SHAPES, "demo", SMALL)

    def call(lengths, shape="demo", repetitions=1):
        return bench.bench_prefill(
            shape, FP8, lengths, device="cpu", num_repetitions=repetitions,
            progress=lambda _: None, settings=Settings(),
        )  # fmt: skip

    return call


def test_figures_follow_from_the_time(measure):
    result = measure([40, 1100], repetitions=2)
    held = weight_bytes(SMALL, FP8.formats, packed=True)["weights"]
    assert [(one.tokens, one.chunks) for one in result["prompts"]] == [(40, 1), (1100, 2)]
    for one in result["prompts"]:
        assert 0 < one.best_ms <= one.ms < one.first_token_ms
        assert one.tok_s == pytest.approx(one.tokens / one.ms * 1e3)
        assert one.weight_bytes == held
        assert one.gb_s == pytest.approx(held * one.chunks / one.ms / 1e6)
        assert one.share == pytest.approx(one.gb_s / result["read_gb_s"])
        assert one.tflop_s == pytest.approx(2 * result["parameters"] * one.tokens / one.ms / 1e9)
    assert result["path"].startswith("kernels: ")
    assert "linear-2:" in result["arithmetic"]
    assert (result["clock"], result["chunk_tokens"]) == ("host", 1024)
    assert "default tiles" in result["notices"][0]
    json.dumps(result | {"prompts": [asdict(one) for one in result["prompts"]]})


def test_the_first_prompt_warms_up_and_the_others_are_told_by_their_medians(monkeypatch):
    read = iter([(900.0, 901.0), (3.0, 5.0), (1.0, 9.0), (2.0, 6.0)])
    monkeypatch.setattr(bench, "_read", lambda *_: bench._Read(*next(read), token_id=7))
    drawn = SimpleNamespace(
        model=SimpleNamespace(
            config=SMALL, chunk_tokens=64, weights=SimpleNamespace(part_bytes={"weights": 1000})
        ),
        read_gb_s=2.0,
    )
    found = bench._time_length(drawn, None, 65, 3)
    assert (found.ms, found.best_ms, found.first_token_ms, found.chunks) == (2.0, 1.0, 6.0, 2)


def test_the_products_of_the_27b_are_counted():
    # gate, up and down; qkv, z, a, b and out; q with its gate, k, v and o
    mlp = 3 * 17408 * 5120
    delta = (10240 + 6144 + 48 + 48 + 6144) * 5120
    attention = (12288 + 1024 + 1024 + 6144) * 5120
    expected = 64 * mlp + 48 * delta + 16 * attention
    assert bench.product_parameters(SHAPE_27B) == expected


def test_a_prompt_that_reads_twice_to_two_tokens_is_refused(measure, monkeypatch):
    tokens = iter(range(10))
    monkeypatch.setattr(bench.TokenChooser, "choose", lambda *_: next(tokens))
    with pytest.raises(KernelError, match="followed by token 0, and read again by 1"):
        measure([40])


def test_what_does_not_fit_is_refused_with_the_numbers(measure, monkeypatch):
    monkeypatch.setattr(memory, "available_bytes", lambda _: 1000)
    drawn = []
    monkeypatch.setattr(model, "random_model", lambda *_, **__: drawn.append(1))
    with pytest.raises(MemoryPlanError, match=r"of 4,096 tokens .* shorter prompt with --tokens"):
        measure([256, 4096])
    assert not drawn


def test_the_longest_prompt_decides_the_room(measure, monkeypatch):
    monkeypatch.setattr(memory, "available_bytes", lambda _: 0)
    needed_gb = []
    for lengths in ([256], [256, 262144, 4096]):
        with pytest.raises(MemoryPlanError) as refused:
            measure(lengths, shape="27b")
        needed_gb.append(float(refused.value.message.split()[3]))
    short, long = (
        sum(kept_bytes(SHAPE_27B, one, packed=True, with_mtp=True).values())
        + sum(passing_bytes(SHAPE_27B, one, packed=True).values())
        for one in (256, 262144)
    )
    cache_gb = (long - short) / 1e9
    rows_gb = 4 * SHAPE_27B.hidden_size * (262144 - 256) / 1e9
    assert needed_gb[1] - needed_gb[0] == pytest.approx(cache_gb + rows_gb, abs=0.2)


@pytest.mark.parametrize("length", [0, 4097])
def test_lengths_that_the_shape_has_not_are_refused(measure, length):
    with pytest.raises(RequestError, match=f"1 to 4,096 tokens, not {length:,}"):
        measure([256, length])


def test_an_unknown_shape_is_refused(measure):
    with pytest.raises(RequestError, match="Did you mean '27b'"):
        measure([256], shape="28b")


def test_a_stopwatch_measures_what_lies_between():
    watch = bench._Stopwatch(torch.device("cpu"))
    watch.mark()
    sum(range(10000))
    watch.mark()
    assert 0 < watch.ms() < 1000
