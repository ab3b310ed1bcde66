"""The first hour on a DGX Spark: one memory, a driver that is silent on some things, guesses."""

from dataclasses import replace

import pytest

from engine import compute_path, doctor, expected
from engine.compute_path import choose_compute_path, describe_paths
from engine.expected import expect_here
from engine.explain import explain_here
from engine.machine import free_memory
from engine.machine.facts import machine_facts, read_clocks
from engine.machine.gpu import read_gpu
from engine.machine.load import LoadReader
from engine.machine.measure import CUDA_READ_BYTES, ReadBandwidth, cuda_read_bytes
from engine.machine.triton_part import Lack
from engine.model.config import SHAPE_27B
from engine.model.memory import plan_serving
from engine.profile import load_profiles
from engine.settings.load import load_settings
from engine.tune.tiles import tile_notice
from kernels.common import gpu
from kernels.linear import skinny_launch
from kernels.linear.tile import SkinnyProblem
from kernels.linear.tile_choice import defaults
from tests.fakes.spark import be_a_spark

RAM_TO_BE_HAD = 112 * 10**9


@pytest.fixture
def settings(monkeypatch, tmp_path):
    """Settings on a Spark whose page cache holds what was downloaded."""
    be_a_spark(monkeypatch)
    monkeypatch.setattr(gpu, "_choices", gpu._Choices())
    monkeypatch.setattr(free_memory, "_meminfo_bytes", lambda: RAM_TO_BE_HAD)
    monkeypatch.setattr(free_memory, "CGROUP", tmp_path)
    monkeypatch.setattr(compute_path, "what_triton_lacks", lambda: None)
    monkeypatch.setattr(compute_path.nvrtc, "_folder", {})
    compute_path.why_kernels_do_not_run.cache_clear()
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    given = {"paths.data": tmp_path / "data", "paths.state": tmp_path / "state"}
    yield load_settings(given)[0]
    compute_path.why_kernels_do_not_run.cache_clear()


def test_the_doctor_tells_the_machine_as_it_is(settings):
    found = {one.topic: one for one in doctor.examine(settings)}
    assert found["gpu"].sentence == ("NVIDIA GB10, driver 580.95.05, memory shared with the CPU.")
    assert found["kernels"].state == "good"
    assert "middle up to 1024" in found["kernels"].sentence
    assert "overlap off" in found["kernels"].sentence
    assert "96 entries of tile tables" in found["kernels"].sentence
    assert "defaults that nobody measured; 'qwen38 tune'" in found["kernels"].sentence
    assert "tune" in found["prices"].mend
    assert found["memory plan"].state == "good"
    assert not any(one.state == "bad" for one in found.values())
    assert "launches" not in found
    fits = found["profile nvfp4"].sentence
    assert "and fits" in fits, "1 GB is what CUDA calls free; the page cache makes room"


def test_a_missing_compiler_is_the_doctors_finding_and_not_a_crash(settings, monkeypatch):
    lack = Lack("Triton compiles a part of itself, which has no headers.", "sudo apt install it")
    monkeypatch.setattr(compute_path, "what_triton_lacks", lambda: lack)
    monkeypatch.setattr(doctor, "what_triton_lacks", lambda: lack)
    found = {one.topic: one for one in doctor.examine(settings, measure=True)}
    assert (found["chat"].state, found["chat"].mend) == ("bad", lack.mend)
    assert (found["bandwidth"].state, found["bandwidth"].sentence) == ("note", lack.sentence)


def test_figures_carry_what_the_driver_tells_and_no_more(settings):
    facts = machine_facts("cuda")
    assert (facts["gpu"], facts["capability"]) == ("NVIDIA GB10", "12.1")
    assert (facts["driver"], facts["launches"]) == ("580.95.05", None)
    assert read_clocks() == {"sm_mhz": 2405, "max_sm_mhz": 3003, "temperature_c": 61}
    assert read_gpu().memory_bytes == 0
    load = LoadReader().read()
    assert (load.gpu_share, load.gpu_bytes, load.gpu_used_bytes) == (0.96, 0, 0)
    assert (load.power_w, load.temperature_c) == (None, 61)


def test_kernels_are_chosen_and_compiled_for_the_chip(settings):
    path = choose_compute_path(settings, "cuda")
    assert (path.capability, path.rehearsal) == ((12, 1), "")
    assert "default tiles" not in describe_paths(path)
    assert "defaults that nobody measured; 'qwen38 tune'" in tile_notice((12, 1))
    _, here, told = explain_here(settings, "27b")
    assert here.facts.target == "sm_121a"
    assert any("hardware's converter" in one.reason for one in told)


@pytest.mark.parametrize("num_sms", [48, 40, 20])
def test_a_gb10_of_fewer_multiprocessors_still_finds_launches(settings, monkeypatch, num_sms):
    """Other machines of the family, and parts of one, have as much shared memory a block."""
    monkeypatch.setattr(gpu, "num_sms", lambda *_: num_sms)
    for name in ("nvfp4", "fp8_block"):
        tiles = defaults(34816, 5120, name, (12, 1))
        for rows in (8, 16):
            problem = SkinnyProblem(34816, 5120, name, rows)
            assert skinny_launch._sized_for(tiles.serving(rows), problem, 0) >= num_sms


def test_memory_is_counted_once_for_both_and_without_the_page_cache(settings):
    plan = plan_serving(
        SHAPE_27B, 27 * 10**9, "cuda", packed=True, with_mtp=True, context_tokens=32768
    )
    assert plan.available == RAM_TO_BE_HAD
    plan.expect_fit()
    assert cuda_read_bytes() == CUDA_READ_BYTES


def test_a_machine_without_room_is_measured_over_what_there_is(settings, monkeypatch):
    monkeypatch.setattr(free_memory, "_meminfo_bytes", lambda: 4 << 30)
    assert cuda_read_bytes() == 1 << 30


def test_profiles_say_at_most_what_the_memory_gives(settings, monkeypatch):
    monkeypatch.setattr(expected, "read_bandwidth", lambda _: ReadBandwidth(240.0, "now"))
    profiles = load_profiles()
    nvfp4, fp8 = expect_here(settings, [profiles["nvfp4"], profiles["fp8"]])
    assert nvfp4.timed_tok_s is None, "nobody timed a GB10"
    assert 13 < nvfp4.most_tok_s < 17
    assert fp8.most_tok_s < nvfp4.most_tok_s
    assert replace(nvfp4, free_bytes=0).fits is False
