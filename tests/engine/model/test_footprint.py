"""Bytes and parameters against the figures of the releases and of the design."""

import subprocess
import sys
from pathlib import Path

import pytest

from engine.model.config import SHAPE_27B, SHAPE_DEMO
from engine.model.footprint import (
    count_parameters,
    kv_bytes_per_token,
    mtp_kv_bytes_per_token,
    round_bytes,
    state_bytes,
    tail_bytes,
    weight_bytes,
)
from engine.model.random import random_model
from engine.model.tensors import expected_tensors
from engine.profile import Formats, load_profiles
from engine.records import BYTE_PARTS

ROOT = Path(__file__).parents[3]
FP8 = load_profiles()["fp8"].formats
BF16 = load_profiles()["bf16"].formats
NVFP4 = Formats(mlp="nvfp4", attention="nvfp4", delta="nvfp4", head="e4m3_row", mtp="bf16")


def test_parameters_of_the_27b():
    assert count_parameters(SHAPE_27B, with_mtp=False) == 25_624_600_064 + 1_271_398_400
    assert count_parameters(SHAPE_27B) == count_parameters(SHAPE_27B, with_mtp=False) + 424_699_392


def test_the_bf16_release_sums_to_its_index():
    vision = 460_730_096
    assert sum(weight_bytes(SHAPE_27B, BF16).values()) + 2 * vision == 55_562_855_904


def test_the_fp8_release_sums_to_its_files():
    vision = 460_730_096
    assert sum(weight_bytes(SHAPE_27B, FP8).values()) + 2 * vision == 30_866_663_264


def test_names_of_the_27b_are_as_many_as_the_release_has():
    vision = 333
    assert len(expected_tensors(SHAPE_27B)) + vision == 1199


def test_state_of_the_27b():
    assert state_bytes(SHAPE_27B) == 150_994_944
    assert tail_bytes(SHAPE_27B) == 2_949_120
    assert kv_bytes_per_token(SHAPE_27B) == 65_536
    assert mtp_kv_bytes_per_token(SHAPE_27B) == 4_096


@pytest.mark.parametrize(("formats", "gigabytes"), [(NVFP4, 15.0), (FP8, 26.9)])
def test_weights_of_a_round_of_the_27b_are_those_of_the_design(formats, gigabytes):
    parts = round_bytes(SHAPE_27B, formats, context_tokens=0)
    assert tuple(parts) == BYTE_PARTS
    assert round((parts["weights"] + parts["head"]) / 1e9, 1) == gigabytes


def test_a_round_grows_by_its_context_and_its_drafts_only():
    plain = round_bytes(SHAPE_27B, FP8, context_tokens=0)
    far = round_bytes(SHAPE_27B, FP8, context_tokens=1000)
    drafted = round_bytes(SHAPE_27B, FP8, context_tokens=0, rows=4, num_drafted=3)
    assert far["kv"] - plain["kv"] == 65_536_000
    assert plain["drafter"] == 0
    assert drafted["head"] == plain["head"]
    assert drafted["drafter"] == 3 * (477_199_744 + 2_542_796_800 + 10_240)


@pytest.mark.parametrize("formats", [BF16, FP8, NVFP4])
def test_random_weights_have_the_bytes_of_their_formats(formats):
    model = random_model(SHAPE_DEMO, formats, device="cpu", expand=False)
    assert model.weight_bytes == sum(weight_bytes(SHAPE_DEMO, formats).values())


def test_sizes_can_be_counted_without_torch():
    code = (
        "import sys, engine.model.footprint, engine.model.checkpoint, engine.model.config_file;"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
