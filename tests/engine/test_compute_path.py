"""Kernels where they run, the reference where they do not, and a sentence either way."""

import threading
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from triton.errors import TritonError

from engine import compute_path
from engine import open as opening
from engine.bench import round as bench
from engine.compute_path import (
    HELD_FORMATS,
    ComputePath,
    KernelError,
    choose_compute_path,
    choose_threads,
    describe_paths,
)
from engine.errors import CancelledError, CheckpointError, SettingsError
from engine.fit import need_of
from engine.graph_classes import GraphClasses
from engine.locate import Choice, choose
from engine.machine.cores import num_physical_cores
from engine.model.config import SHAPE_27B, SHAPE_DEMO
from engine.model.footprint import weight_bytes
from engine.model.packing import Launching
from engine.model.random import random_model
from engine.model.serving_memory import GRAPH_LAYER_BYTES
from engine.profile import load_profiles
from engine.settings.declared import KernelSettings, ModelSettings, Settings
from engine.settings.load import load_settings
from engine.turn.memory import Memory
from engine.types import Message, NoticeRaised, Request, Sampling
from engine.warm_up import read_chunks, run_rounds, warm_up
from kernels.common.nvrtc import CompileError
from tests.engine.model.checkpoints import TINY, write_checkpoint
from tests.fakes.model import run, write_text_files

ROUNDS = partial(run_rounds, classes=GraphClasses(), sampling=Sampling())
ALL = partial(warm_up, classes=GraphClasses(), sampling=Sampling())
PACKED = ComputePath(Launching((9, 0)))
PROFILES = load_profiles()


@pytest.fixture
def gpu(monkeypatch):
    """A GPU of a capability, whose compiler works: ``gpu((9, 0))``."""
    monkeypatch.setattr(compute_path.nvrtc, "keep_in", lambda folder: None)
    monkeypatch.setattr(compute_path, "what_triton_lacks", lambda: None)
    monkeypatch.setattr(compute_path.skinny_launch, "cubin", lambda *args: b"")
    compute_path.why_kernels_do_not_run.cache_clear()
    yield lambda one: monkeypatch.setattr(torch.cuda, "get_device_capability", lambda *_: one)
    compute_path.why_kernels_do_not_run.cache_clear()


def wanting(linear: str, *, overlap: bool = False) -> Settings:
    return Settings(kernels=KernelSettings(linear, overlap=overlap))


def test_a_cpu_runs_the_reference_in_silence():
    assert choose_compute_path(wanting("auto"), "cpu") == ComputePath()
    assert choose_compute_path(wanting("reference"), "cpu") == ComputePath()
    with pytest.raises(SettingsError, match="'kernels.linear' is 'skinny', but the model runs on"):
        choose_compute_path(wanting("skinny"), "cpu")


@pytest.mark.parametrize("capability", [(9, 0), (12, 1)])
@pytest.mark.parametrize("wanted", ["auto", "skinny"])
def test_a_gpu_that_runs_the_kernels_takes_them(gpu, capability, wanted):
    gpu(capability)
    path = choose_compute_path(wanting(wanted, overlap=True), "cuda")
    assert (path.launching.capability, path.launching.overlap) == (capability, True)
    assert path.is_packed
    assert "overlapped" in path.description
    assert "skinny up to" in describe_paths(path)


def test_fp8_operands_of_prompts_are_a_setting(gpu):
    gpu((9, 0))
    settings = Settings(kernels=KernelSettings(prefill="fp8"))
    path = choose_compute_path(settings, "cuda")
    assert path.launching.fp8_prefill
    assert "prompts by FP8 operands" in path.description
    assert "FP8 operands" in describe_paths(path)
    assert not choose_compute_path(wanting("auto"), "cuda").launching.fp8_prefill


def test_fp8_operands_that_cannot_be_had_are_a_sentence():
    path = choose_compute_path(Settings(kernels=KernelSettings(prefill="fp8")), "cpu")
    assert "'kernels.prefill' is 'fp8', which needs the kernels of a GPU" in path.why_not
    assert not path.is_packed


def test_the_reference_is_a_setting(gpu):
    gpu((9, 0))
    path = choose_compute_path(wanting("reference"), "cuda")
    assert not path.is_packed
    assert path.new_packer() is None
    assert "'reference'" in path.why_not == describe_paths(path)


def test_an_old_gpu_falls_back_and_says_why(gpu):
    gpu((8, 6))
    path = choose_compute_path(wanting("auto"), "cuda")
    assert not path.is_packed
    assert "compute capability 9.0 or later, and this one has 8.6" in path.why_not
    with pytest.raises(SettingsError, match="this one has 8.6"):
        choose_compute_path(wanting("skinny"), "cuda")


def test_a_missing_compiler_falls_back_and_says_why(gpu, monkeypatch):
    gpu((9, 0))

    def refuse(*args):
        raise CompileError("CUDA kernels cannot be compiled: no cuda; install cuda-core")

    monkeypatch.setattr(compute_path.skinny_launch, "cubin", refuse)
    path = choose_compute_path(wanting("auto"), "cuda")
    assert path.why_not.endswith("install cuda-core.")


def test_the_switches_are_settings(monkeypatch):
    monkeypatch.setenv("QWEN38_KERNELS_LINEAR", "reference")
    monkeypatch.setenv("QWEN38_KERNELS_OVERLAP", "on")
    settings, _ = load_settings()
    assert settings.kernels == KernelSettings("reference", overlap=True)
    monkeypatch.setenv("QWEN38_KERNELS_LINEAR", "skiny")
    with pytest.raises(SettingsError, match="Did you mean 'skinny'"):
        load_settings()


def test_a_small_model_takes_one_thread_and_a_large_one_every_core():
    assert choose_threads(SHAPE_DEMO) == 1
    assert choose_threads(SHAPE_27B) == num_physical_cores()


@pytest.mark.parametrize("raised", [RuntimeError, TritonError])
def test_a_refused_launch_is_a_sentence(monkeypatch, raised):
    model = random_model(SHAPE_DEMO, HELD_FORMATS, device="cpu")

    def refuse(*args):
        raise raised("launch of Launch(...) failed: CUDA_ERROR_X\nmore")

    monkeypatch.setattr(model, "step", refuse)
    with pytest.raises(KernelError, match="do not run here: launch of .* CUDA_ERROR_X.* check"):
        warm_up(SimpleNamespace(model=model), Memory(model, 64, 0), GraphClasses(), Sampling())


def test_warm_rounds_leave_an_empty_conversation(packed_engine):
    engine = packed_engine
    engine.warm_up(ROUNDS)
    cold = run(engine, HELLO)[-1].record
    engine.warm_up(ROUNDS)
    assert run(engine, HELLO)[-1].record.token_ids == cold.token_ids
    assert cold.reused_tokens == 0


class Recorded:
    """A graph that launches what it captured."""

    def __init__(self, launch):
        self.replay = launch


@pytest.mark.parametrize("is_warm", [True, False])
def test_graphs_of_the_warm_up_serve_the_first_answer(packed_engine, monkeypatch, is_warm):
    engine = packed_engine
    machine = engine._machine
    for graphs in (machine.verifier._graphs, machine.model.mtp._graphs):
        monkeypatch.setattr(graphs, "_captures", True)
        monkeypatch.setattr(graphs, "_capture", Recorded)
    if is_warm:
        engine.warm_up(ROUNDS)
        engine.warm_up(ALL)
    sampling = replace(machine.model.default_sampling, seed=2)
    request = replace(HELLO, drafter="mtp", sampling=sampling, ignore_stop_ids=True, max_tokens=9)
    notices = [one.text for one in run(engine, request) if isinstance(one, NoticeRaised)]
    captured = [one for one in notices if "captured as graphs" in one]
    assert any("a call of the MTP head" in one for one in captured) is not is_warm
    assert any("a round of 4 rows" in one for one in captured) is not is_warm


@pytest.mark.parametrize(
    ("named", "rounds", "chunks"),
    [
        (GraphClasses((1, 4), (1024,), (64,)), {(1, 1024), (4, 1024)}, {64}),
        (GraphClasses((2,), (1024, 2048), ()), {(2, 1024), (2, 2048)}, set()),
        (GraphClasses((2,), (), ()), set(), set()),
    ],
)
def test_what_a_profile_names_is_captured_and_nothing_else(
    packed_engine, monkeypatch, named, rounds, chunks
):
    engine, told = packed_engine, []
    machine = engine._machine
    caches = machine.verifier._graphs, machine.model._chunk_graphs, machine.model.mtp._graphs
    for graphs in caches:
        monkeypatch.setattr(graphs, "_captures", True)
        monkeypatch.setattr(graphs, "_capture", Recorded)
    engine.warm_up(partial(run_rounds, classes=named, sampling=Sampling(), tell=told.append))
    engine.warm_up(lambda machine, memory: read_chunks(machine.model, memory, named.chunk_rows))
    engine.warm_up(partial(warm_up, classes=named, sampling=Sampling()))
    of_rounds, of_chunks, of_drafts = (set(one._graphs) for one in caches)
    assert {(shape.num_rows, shape.max_context) for shape, _ in of_rounds} == rounds
    assert {num_rows for num_rows, _ in of_chunks} == chunks
    contexts = {one for one in named.context_tokens if one <= 1024}  # the model holds 256 tokens
    drafts = {(one, context) for one in range(1, 8) for context in contexts}
    assert {key[1:] for key in of_drafts if key[0] == "draft"} == drafts
    assert told[-1:] == [f"rounds are captured, {len(rounds)} of {len(rounds)}"][: len(rounds)]


@pytest.mark.parametrize(
    ("sampling", "choice"), [(Sampling(temperature=0.0), "greedy"), (Sampling(top_k=7), "top")]
)
def test_rounds_are_captured_as_the_settings_draw(packed_engine, monkeypatch, sampling, choice):
    verifier = packed_engine._machine.verifier
    monkeypatch.setattr(verifier._graphs, "_captures", True)
    monkeypatch.setattr(verifier._graphs, "_capture", Recorded)
    packed_engine.warm_up(partial(run_rounds, classes=GraphClasses((1,)), sampling=sampling))
    assert {way.method.choice for _, way in verifier._graphs._graphs} == {choice}


def test_a_load_that_is_stopped_ends_between_two_captures(packed_engine):
    told = []

    def stop(what):
        told.append(what)
        raise CancelledError("stopped")

    for step in (run_rounds, warm_up):
        told.clear()
        with pytest.raises(CancelledError):
            packed_engine.warm_up(
                partial(step, classes=GraphClasses(), sampling=Sampling(), tell=stop)
            )
        assert len(told) == 1


def test_a_profile_of_more_graphs_needs_more_memory():
    nvfp4 = PROFILES["nvfp4"]
    nvfp4 = replace(nvfp4, graphs=GraphClasses())
    more = replace(nvfp4, graphs=GraphClasses(context_tokens=(1024, 2048, 4096)))
    few, many = (need_of(one, 32768, packed=True) for one in (nvfp4, more))
    assert many.total_bytes - few.total_bytes == 24 * 64 * GRAPH_LAYER_BYTES
    assert need_of(more, 1024, packed=True) == need_of(nvfp4, 1024, packed=True)
    assert need_of(more, 32768, packed=False) == need_of(nvfp4, 32768, packed=False)


HELLO = Request(messages=(Message("user", "hello"),), sampling=Sampling(seed=1), max_tokens=6)


@pytest.fixture
def packed_engine(tmp_path, monkeypatch):
    config = replace(TINY, vocab_size=320, eos_ids=(302,))
    folder = write_text_files(write_checkpoint(tmp_path / "model", config, fp8=True))
    settings = Settings(model=ModelSettings(device="cpu", threads=1, context_tokens=256))
    monkeypatch.setattr(opening, "choose_compute_path", lambda *_: PACKED)
    engine = opening.open_engine(
        Choice(folder, PROFILES["fp8"], is_demo=False), settings, None, threading.Event()
    )
    yield engine
    engine.close()


def test_an_engine_over_packed_weights_answers_the_same_with_and_without_drafts(packed_engine):
    engine = packed_engine
    records, notices = {}, []
    for drafter in ("off", "mtp", "wrong"):
        events = run(engine, replace(HELLO, drafter=drafter, keep_logits=True))
        records[drafter] = events[-1].record
        notices += [one.text for one in events if isinstance(one, NoticeRaised)]
    for drafter in ("mtp", "wrong"):
        assert records[drafter].token_ids == records["off"].token_ids
        assert torch.equal(records[drafter].logits, records["off"].logits)
    assert len({row.numpy().tobytes() for row in records["off"].logits}) == 6
    info = engine.info
    assert "linear-2:" in info.arithmetic
    moved = records["off"].rounds[0].num_bytes
    assert moved["weights"] + moved["head"] < info.weight_bytes
    assert not any("reads all weights" in one for one in (*notices, *info.notices))


@pytest.mark.parametrize("name", ["fp8", "nvfp4", "balanced"])
def test_bench_round_counts_the_bytes_of_packed_weights(name, monkeypatch):
    profile = PROFILES[name]
    monkeypatch.setattr(bench, "choose_compute_path", lambda *_: PACKED)
    result = bench.bench_round(
        "demo", profile, [1, 2], device="cpu", context_tokens=16, num_repetitions=1,
        progress=lambda _: None, settings=Settings(),
    )  # fmt: skip
    held = weight_bytes(SHAPE_DEMO, profile.formats, packed=True)
    one, two = (timing.num_bytes for timing in result["rounds"])
    assert one["head"] == held["head"]
    assert one["weights"] == held["weights"] + 2 * SHAPE_DEMO.hidden_size
    assert two["weights"] == one["weights"] + 2 * SHAPE_DEMO.hidden_size
    assert result["weight_bytes"] == sum(held.values())
    assert result["path"].startswith("kernels: ")
    assert "default tiles" in result["notices"][0]
    assert "linear-2:" in result["arithmetic"]


def test_a_profiles_need_is_that_of_the_path():
    fp8, nvfp4 = (need_of(PROFILES[one], 1024, packed=True) for one in ("fp8", "nvfp4"))
    wide = need_of(PROFILES["fp8"], 1024, packed=False)
    assert wide.held_bytes > 1.7 * fp8.held_bytes
    assert fp8.held_bytes > 1.6 * nvfp4.held_bytes
    assert fp8.workspace_bytes > wide.workspace_bytes == 0
    assert need_of(PROFILES["fp8"], 1024) == wide  # this machine has no GPU


@pytest.mark.parametrize("name", ["nvfp4", "balanced"])
def test_a_profile_that_no_release_is_named_for_asks_for_a_folder(name):
    need = need_of(PROFILES[name], 1024)
    assert (need.path, need.problem) == (None, None)
    settings = Settings(model=ModelSettings(profile=name))
    with pytest.raises(CheckpointError, match=f"files of the profile '{name}'.*--model DIR"):
        choose(settings, PROFILES)
