"""A GB10's launches on an H200: every choice is the other's, the chip stays, nothing is kept."""

from dataclasses import replace

import pytest

from app.commands.explanation import explanation, lines_of
from engine import compute_path, doctor
from engine.compute_path import choose_compute_path, facts_of
from engine.dispatch import decoding_of, dispatch
from engine.draft.price_table import shipped_prices
from engine.errors import RequestError, SettingsError
from engine.explain import explain_here
from engine.machine.facts import machine_facts
from engine.model import norms
from engine.model.config import SHAPE_27B
from engine.model.packed import Packed
from engine.model.packing import Launching, Packer
from engine.model.random import random_model
from engine.profile import load_profiles
from engine.rehearsal import choose_launches, expect_own_launches, sentence
from engine.settings.load import load_settings
from engine.tune import run as tuning
from engine.tune import tiles
from engine.tune.rounds import Asked, measure_rounds
from engine.tune.tiles import read_table, shipped_table, tile_notice
from engine.tune.user_prices import Served, find_prices, prices_path, write_prices
from engine.tune.user_tiles import table_path, write_user_table
from kernels.common import gpu
from kernels.common.family import load_families
from kernels.linear.prefill_fp8 import lowering
from kernels.linear.weight import Nvfp4Weight
from tests.engine.model.checkpoints import TINY
from tests.fakes.spark import be_a_spark

ROUND = ("norm", "delta rule of a round", "attention of a round")
NVFP4 = load_profiles()["nvfp4"]


@pytest.fixture
def rehearsing(monkeypatch, tmp_path):
    """Settings that rehearse a GB10, on an H200 that has launched nothing."""
    be_a_spark(monkeypatch, capability=(9, 0), name="NVIDIA H200", integrated=0)
    monkeypatch.setattr(gpu, "_choices", gpu._Choices())
    monkeypatch.setattr(compute_path, "what_triton_lacks", lambda: None)
    monkeypatch.setattr(compute_path.nvrtc, "_folder", {})
    monkeypatch.setattr(compute_path.skinny_launch, "cubin", lambda *_: b"")
    compute_path.why_kernels_do_not_run.cache_clear()
    tiles.forget_tables()
    monkeypatch.setenv("QWEN38_PATHS_DATA", str(tmp_path))
    monkeypatch.setenv("QWEN38_KERNELS_LAUNCHES", "sm_121")
    yield load_settings()[0]
    compute_path.why_kernels_do_not_run.cache_clear()
    tiles.forget_tables()


def test_every_choice_of_the_engine_is_the_other_gpus(rehearsing):
    path = choose_compute_path(rehearsing, "cuda")
    assert path.capability == (12, 1)
    assert path.launching.rows == shipped_table("linear", (12, 1))
    assert not path.launching.overlap
    assert "another GPU's launch choices" in path.description
    facts = facts_of("cuda", probe=False)
    for operation in ROUND:
        spark = replace(facts, chip=(12, 1))
        assert dispatch(operation, facts, 16, rehearsing.kernels) == dispatch(
            operation, spark, 16, rehearsing.kernels
        )
    assert dispatch("product", facts, 1024, rehearsing.kernels).name == "middle_linear"


def test_what_is_compiled_and_packed_is_for_the_chip_that_is_here(rehearsing):
    path = choose_compute_path(rehearsing, "cuda")
    facts = facts_of("cuda", probe=False)
    assert facts.target == "sm_90a"
    assert "portable" in decoding_of("nvfp4", facts)
    assert path.launching.chip == (9, 0)
    assert lowering(gpu.chip()) == {}


@pytest.mark.parametrize(("chip", "spread"), [((9, 0), True), ((12, 1), False), (None, False)])
def test_codes_are_packed_in_the_order_of_the_chip(chip, spread):
    packer = Packer(Launching((12, 1), chip=chip))
    random_model(TINY, NVFP4.formats, device="cpu", packer=packer)
    weights = [one.weight for one in packer.packed().values() if isinstance(one, Packed)]
    assert {one.spread for one in weights if isinstance(one, Nvfp4Weight)} == {spread}


def test_it_is_said_wherever_a_person_looks(rehearsing):
    path = choose_compute_path(rehearsing, "cuda")
    said = path.rehearsal
    assert said.startswith("A rehearsal: NVIDIA H200 makes the launch choices of sm_121 (48 multi")
    found = {one.topic: one for one in doctor._models(rehearsing)}
    assert (found["launches"].state, found["launches"].sentence) == ("note", said)
    assert machine_facts("cuda")["launches"] == "sm_121"
    _, here, _ = explain_here(rehearsing, "27b")
    assert (here.facts.capability, here.facts.target) == ((12, 1), "sm_90a")
    assert said in lines_of(explanation(rehearsing, "27b"))


def test_own_tables_and_prices_are_neither_read_nor_written(rehearsing, tmp_path):
    row = {"op": "rms_norm", "width": 5120, "num_warps": 8, "rows_per_program": 1}
    write_user_table(table_path(tmp_path, "norm", (12, 1)), {"gpu": "NVIDIA GB10"}, [row])
    table = shipped_prices("sm_121", "nvfp4")
    served = Served.of(SHAPE_27B, NVFP4.formats, (12, 1), "bf16")
    write_prices(prices_path(tmp_path, (12, 1)), {"gpu": "NVIDIA H200"}, served, table)
    assert read_table("norm", (12, 1)) == (row, *shipped_table("norm", (12, 1)))
    assert find_prices(served, tmp_path).is_own
    path = choose_compute_path(rehearsing, "cuda")
    assert read_table("norm", (12, 1)) == shipped_table("norm", (12, 1))
    assert str(tmp_path) not in tile_notice((12, 1))
    assert not find_prices(served, tmp_path).is_own
    norms._tile_on.cache_clear()
    assert norms._tile_on("rms_norm", 5120, 0) is not None
    norms._tile_on.cache_clear()
    place = tuning.this_gpu(tmp_path)
    assert place.capability == (12, 1)
    with pytest.raises(RequestError, match="while sm_121 is rehearsed serves no GPU.*--dry-run"):
        tuning.tune(
            load_families(["norm"]), [], place, seconds=1, dry_run=False, progress=lambda _: None
        )
    asked = Asked("27b", SHAPE_27B, NVFP4, "cuda", (64,), (1,), "tune")
    with pytest.raises(RequestError, match="serves no GPU"):
        measure_rounds(asked, path, tmp_path, dry_run=False, progress=lambda _: None)


def test_the_gpu_that_is_rehearsed_rehearses_nothing(monkeypatch):
    be_a_spark(monkeypatch)
    monkeypatch.setattr(gpu, "_choices", gpu._Choices())
    assert choose_launches("sm_121", "cuda") == choose_launches("auto", "cuda") == ""
    assert gpu.rehearsed() is None
    expect_own_launches()


def test_a_rehearsal_that_cannot_be_is_refused_in_a_sentence(rehearsing):
    with pytest.raises(SettingsError, match="rehearsed on a GPU, and the model runs on the CPU"):
        choose_compute_path(rehearsing, "cpu")
    gpu.choices()
    with pytest.raises(SettingsError, match="chosen before sm_121 was rehearsed.*process of its"):
        choose_compute_path(rehearsing, "cuda")
    assert sentence() == ""


def test_a_gpu_that_runs_no_kernels_says_so_as_ever(rehearsing, monkeypatch):
    be_a_spark(monkeypatch, capability=(8, 6), name="an older GPU", integrated=0)
    path = choose_compute_path(rehearsing, "cuda")
    assert not path.is_packed
    assert "this one has 8.6" in path.why_not


def test_no_other_gpu_can_be_named(monkeypatch):
    monkeypatch.setenv("QWEN38_KERNELS_LAUNCHES", "sm_90")
    with pytest.raises(SettingsError, match="'sm_90', expected one of auto, sm_121"):
        load_settings()
