"""Layouts and scales that are not read end in a sentence and allocate nothing."""

from dataclasses import replace

import pytest
import torch

from engine.model import loading, scale_values
from engine.model.checkpoint import open_checkpoint
from engine.model.config_file import read_config
from tests.engine.model.checkpoints import (
    TINY,
    random_tensors,
    refused,
    tensors_with,
    write_checkpoint,
)

NAME = "model.language_model.layers.0.mlp.gate_proj.weight"
SCALE = NAME + "_scale_inv"
E4M3 = torch.float8_e4m3fn
GATE = (TINY.intermediate_size, TINY.hidden_size)
CODES = torch.ones(96, 32, dtype=torch.uint8)
GROUPS = torch.ones(96, 4).to(E4M3)


@pytest.fixture(autouse=True)
def _nothing_is_allocated(monkeypatch):
    def fail(*args, **kwargs):
        raise AssertionError("weights were loaded from a checkpoint that must be refused")

    monkeypatch.setattr(loading, "_load_tensors", fail)


LAYOUT_DAMAGES: dict[str, tuple[dict[str, torch.Tensor | None], str]] = {
    "another dtype": (
        {NAME: torch.ones(GATE, dtype=torch.int32)},
        "weight I32 [96, 64], which is no layout that is read; the nearest is plain values"),
    "8 bits without scales": (
        {NAME: torch.ones(GATE).to(E4M3)},
        ("'layers.0.mlp.gate_proj' is stored as weight F8_E4M3 [96, 64], which is no layout that "
        "is read; the nearest is Qwen FP8 in blocks of 128 x 128 (weight F8_E4M3 [96, 64], "
        "weight_scale_inv BF16 [1, 1])")),
    "scales of a plain weight": ({SCALE: torch.ones(1, 1).bfloat16()}, "nearest is plain values"),
    "scales in F32": (
        {NAME: torch.ones(GATE).to(E4M3), SCALE: torch.ones(1, 1)}, "weight_scale_inv BF16 [1, 1]"),
    "scales of another block size": (
        {NAME: torch.ones(GATE).to(E4M3), SCALE: torch.ones(2, 1).bfloat16()}, "128 x 128"),
    "a row's scales under the name of a block's": (
        {NAME: torch.ones(GATE).to(E4M3), SCALE: torch.ones(96, 1).bfloat16()},
        "weight_scale_inv BF16 [96, 1], which is no layout"),
    "one scale under the name of a block's": (
        {NAME: torch.ones(GATE).to(E4M3), SCALE: torch.ones(1).bfloat16()},
        "weight_scale_inv BF16 [1], which is no layout"),
    "a block's scales under the name of a row's": (
        {NAME: torch.ones(GATE).to(E4M3), NAME + "_scale": torch.ones(1, 1)},
        "weight_scale F32 [1, 1], which is no layout"),
    "row scales of another width": (
        {NAME: torch.ones(GATE).to(E4M3), NAME + "_scale": torch.ones(96, 2)},
        ("nearest is compressed-tensors FP8 per row (weight F8_E4M3 [96, 64], weight_scale "
        "BF16/F32 [96, 1] or [96])")),
    "row scales in halves": (
        {NAME: torch.ones(GATE).to(E4M3), NAME + "_scale": torch.ones(96, 1).half()},
        "weight_scale F16 [96, 1], which is no layout"),
    "two kinds of scales": (
        {NAME: torch.ones(GATE).to(E4M3), NAME + "_scale": torch.ones(()),
         SCALE: torch.ones(1, 1).bfloat16()}, "which is no layout"),
    "8 bits of another shape": (
        {NAME: torch.ones(95, 64).to(E4M3), NAME + "_scale": torch.ones(())},
        ("weight F8_E4M3 [95, 64], weight_scale F32 [], which is no layout that is read; the "
        "nearest is modelopt FP8 per tensor")),
    "4 bits without a tensor's scale": (
        {NAME: CODES, NAME + "_scale": GROUPS},
        ("nearest is modelopt NVFP4 (weight U8 [96, 32], weight_scale F8_E4M3 [96, 4], "
        "weight_scale_2 F32 [] or [1])")),
    "4 bits without groups": ({NAME: CODES, NAME + "_scale_2": torch.ones(())}, "modelopt NVFP4"),
    "4 bits with groups of 32": (
        {NAME: CODES, NAME + "_scale": GROUPS[:, :2].clone(), NAME + "_scale_2": torch.ones(())},
        "weight_scale F8_E4M3 [96, 2], weight_scale_2 F32 [], which is no layout"),
    "4 bits with a row's scales": (
        {NAME: CODES, NAME + "_scale": GROUPS, NAME + "_scale_2": torch.ones(96)},
        "weight_scale_2 F32 [96], which is no layout"),
    "4 bits with a scale in BF16": (
        {NAME: CODES, NAME + "_scale": GROUPS, NAME + "_scale_2": torch.ones(()).bfloat16()},
        "weight_scale_2 BF16 [], which is no layout"),
    "4 bits with swizzled scales": (
        {NAME: CODES, NAME + "_scale": torch.ones(128, 4).to(E4M3),
         NAME + "_scale_2": torch.ones(())}, "weight_scale F8_E4M3 [128, 4]"),
    "packed codes under the other name": (
        {NAME: CODES, NAME + "_scale": GROUPS, NAME + "_global_scale": torch.ones(1)},
        "which is no layout"),
    "both names of a matrix": (
        {NAME + "_packed": CODES, NAME + "_scale": GROUPS, NAME + "_global_scale": torch.ones(1)},
        "which is no layout"),
    "packed codes without a divisor": (
        {NAME: None, NAME + "_packed": CODES, NAME + "_scale": GROUPS},
        "nearest is compressed-tensors NVFP4 (weight_packed U8 [96, 32]"),
    "MXFP4": (
        {NAME: None, NAME + "_packed": CODES,
         NAME + "_scale": torch.ones(96, 2, dtype=torch.uint8)}, "This is an MX format"),
    "compressed-tensors int4": (
        {NAME: None, NAME + "_packed": torch.ones(96, 8, dtype=torch.int32),
         NAME + "_scale": torch.ones(96, 2).bfloat16(),
         NAME + "_shape": torch.tensor([96, 64])}, "pack-quantized integers"),
    "AWQ": (
        {NAME: None, NAME.replace("weight", "qweight"): torch.ones(64, 12, dtype=torch.int32),
         NAME.replace("weight", "qzeros"): torch.ones(2, 12, dtype=torch.int32),
         NAME.replace("weight", "scales"): torch.ones(2, 96).half()}, "an AWQ or GPTQ export"),
    "an unknown scale": (
        {NAME: CODES, NAME + "_scale": GROUPS, NAME + "_scale_3": torch.ones(())},
        "weight_scale_3 F32 []"),
    "other 8 bits": ({NAME: torch.ones(GATE).to(torch.float8_e5m2)}, "F8_E5M2 codes"),
}  # fmt: skip


@pytest.mark.parametrize("damage", LAYOUT_DAMAGES)
def test_a_layout_that_is_not_read_is_refused_with_the_nearest(tmp_path, damage: str):
    changed, says = LAYOUT_DAMAGES[damage]
    folder = write_checkpoint(tmp_path / "model", tensors=tensors_with(**changed))
    assert says in refused(folder)


def test_groups_that_the_inputs_do_not_fill_are_refused(tmp_path):
    config = replace(TINY, hidden_size=72)
    tensors = random_tensors(config) | {
        NAME: torch.ones(96, 36, dtype=torch.uint8),
        NAME + "_scale": torch.ones(96, 4).to(E4M3),
        NAME + "_scale_2": torch.ones(()),
    }
    said = refused(write_checkpoint(tmp_path / "model", config, tensors=tensors))
    assert "K = 72 is no multiple of 16" in said


LEAVES = {
    "blocks": (SCALE, (1, 1), torch.bfloat16),
    "rows": (NAME + "_scale", (96, 1), torch.bfloat16),
    "rows in F32": (NAME + "_scale", (96, 1), torch.float32),
    "the whole": (NAME + "_scale", (), torch.float32),
    "groups": (NAME + "_scale", (96, 4), E4M3),
    "4 bits": (NAME + "_scale_2", (), torch.float32),
    "divisor": (NAME + "_global_scale", (1,), torch.float32),
}


def with_scale(leaf: str, value: float) -> dict[str, torch.Tensor | None]:
    """A matrix whose last scale is a value; all else is right."""
    name, shape, dtype = LEAVES[leaf]
    scale = torch.ones(shape)
    scale.view(-1)[-1:] = value
    codes = {NAME: torch.ones(GATE).to(E4M3)}
    if leaf in ("groups", "4 bits"):
        codes = {NAME: CODES, NAME + "_scale": GROUPS, NAME + "_scale_2": torch.ones(())}
    if leaf == "divisor":
        codes = {NAME: None, NAME + "_packed": CODES, NAME + "_scale": GROUPS}
    return {**codes, name: scale.to(dtype)}


WRONG = [
    (leaf, value)
    for leaf, (_, _, dtype) in LEAVES.items()
    for value in (float("nan"), -1.0, -float("inf"), *([-0.0] if dtype == E4M3 else [float("inf")]))
]
"""An infinite e4m3 scale cannot be written; its negative zero has the sign that kernels reuse."""


@pytest.mark.parametrize(("leaf", "value"), WRONG)
def test_a_scale_that_is_no_positive_number_is_refused(tmp_path, leaf: str, value: float):
    changed = with_scale(leaf, value)
    folder = write_checkpoint(tmp_path / "model", tensors=tensors_with(**changed))
    name, shape, _ = LEAVES[leaf]
    place = torch.Size(shape).numel() - 1
    assert f"{place} of '{name}' is" in refused(folder)


@pytest.mark.parametrize("leaf", [one for one in LEAVES if one not in ("groups", "divisor")])
def test_a_scale_is_as_large_as_leaves_every_code_a_finite_bf16(tmp_path, leaf: str):
    tensors = tensors_with(**with_scale(leaf, 2.0**116))
    said = refused(write_checkpoint(tmp_path / "too large", tensors=tensors))
    assert f"of '{LEAVES[leaf][0]}' is too large for any weight" in said
    largest = torch.tensor(2.0**116).nextafter(torch.tensor(0.0)).item()
    largest = 255 * 2.0**108 if LEAVES[leaf][2] == torch.bfloat16 else largest
    tensors = tensors_with(**with_scale(leaf, largest))
    folder = write_checkpoint(tmp_path / "large", tensors=tensors)
    assert open_checkpoint(folder, read_config(folder)).num_bytes > 0
    assert torch.tensor(6 * 448 * largest).bfloat16().isfinite()


@pytest.mark.parametrize("leaf", [one for one in LEAVES if one not in ("groups", "divisor")])
@pytest.mark.parametrize("value", [0.0, -0.0])
def test_a_scale_of_zero_is_a_matrix_of_zeros(tmp_path, leaf: str, value: float):
    tensors = tensors_with(**with_scale(leaf, value))
    folder = write_checkpoint(tmp_path / "model", tensors=tensors)
    assert open_checkpoint(folder, read_config(folder)).num_bytes > 0


@pytest.mark.parametrize("value", [0.0, 1e-39, 1e38])
def test_a_divisor_without_a_normal_inverse_is_refused(tmp_path, value: float):
    tensors = tensors_with(**with_scale("divisor", value))
    said = refused(write_checkpoint(tmp_path / "model", tensors=tensors))
    assert f"'{NAME}_global_scale' is {value:g}, expected a divisor from" in said


def test_scales_are_looked_at_piece_by_piece(tmp_path, monkeypatch):
    monkeypatch.setattr(scale_values, "PIECE_BYTES", 64)
    tensors = tensors_with(**with_scale("rows in F32", float("nan")))
    folder = write_checkpoint(tmp_path / "model", tensors=tensors)
    assert f"scale 95 of '{NAME}_scale' is not finite" in refused(folder)
