"""The 27B's headers in the published layouts match, and sum to the bytes of the releases."""

from pathlib import Path

import pytest

from engine.model import checkpoint as opening
from engine.model.checkpoint import Checkpoint, match_checkpoint
from engine.model.config import SHAPE_27B
from engine.model.memory import plan_memory
from engine.model.safetensors_header import DTYPE_BYTES, StoredTensor
from engine.model.tensors import expected_tensors
from tests.engine.model.layouts import on_disk

Headers = dict[str, tuple[str, tuple[int, ...]]]
"""Dtype and shape by name."""

VISION_BYTES = 2 * 460_730_096
MTP_BYTES = 2 * 424_699_392


def modelopt(module: str, part: str, rows: int, width: int) -> Headers:
    """nvidia/ and RadixArk/: 193 matrices in NVFP4, 208 in FP8."""
    if part in ("mlp", "head"):
        return {
            f"{module}.weight": ("U8", (rows, width // 2)),
            f"{module}.weight_scale": ("F8_E4M3", (rows, width // 16)),
            f"{module}.weight_scale_2": ("F32", ()),
            f"{module}.input_scale": ("F32", ()),
        }
    if part in ("attention", "delta"):
        return {
            f"{module}.weight": ("F8_E4M3", (rows, width)),
            f"{module}.weight_scale": ("F32", ()),
            f"{module}.input_scale": ("F32", ()),
        }
    return {f"{module}.weight": ("BF16", (rows, width))}


def unsloth(module: str, part: str, rows: int, width: int) -> Headers:
    """168 matrices in NVFP4, the feed-forward of layers 0 to 55, and 233 in FP8."""
    if part == "mlp" and int(module.split("layers.")[1].split(".")[0]) < 56:
        return {
            f"{module}.weight_packed": ("U8", (rows, width // 2)),
            f"{module}.weight_scale": ("F8_E4M3", (rows, width // 16)),
            f"{module}.weight_global_scale": ("F32", (1,)),
            f"{module}.input_global_scale": ("F32", (1,)),
        }
    if part in ("mlp", "attention", "delta", "head"):
        found: Headers = {
            f"{module}.weight": ("F8_E4M3", (rows, width)),
            f"{module}.weight_scale": ("BF16", (rows, 1)),
        }
        if module.endswith(("self_attn.k_proj", "self_attn.v_proj")):
            layer, _, projection = module.rpartition(".")
            found[f"{layer}.{projection[0]}_scale"] = ("BF16", (1,))
        return found
    return {f"{module}.weight": ("BF16", (rows, width))}


def matched(monkeypatch, layout) -> tuple[Checkpoint, int, int]:
    """The matched checkpoint; how many tensors the headers hold, and their bytes."""
    headers: Headers = {}
    for short, spec in expected_tensors(SHAPE_27B).items():
        name = on_disk(short)
        if spec.matrix:
            module = name.removesuffix(".weight")
            headers |= layout(module, spec.part, spec.shape[0], spec.shape[1])
        else:
            headers[name] = ("BF16", spec.shape)
    tensors: dict[str, StoredTensor] = {}
    offset = 0
    for name, (dtype, shape) in headers.items():
        num_bytes = DTYPE_BYTES[dtype]
        for size in shape:
            num_bytes *= size
        tensors[name] = StoredTensor(
            name, Path("model.safetensors"), dtype, shape, offset, num_bytes
        )
        offset += num_bytes
    monkeypatch.setattr(opening, "read_shards", lambda _: tensors)
    return match_checkpoint(Path(), SHAPE_27B), len(tensors), offset


def test_modelopt_sums_to_the_index_of_the_release(monkeypatch):
    checkpoint, num_tensors, num_bytes = matched(monkeypatch, modelopt)
    assert num_tensors + 333 == 2194
    assert num_bytes + VISION_BYTES == 21_921_428_072
    assert checkpoint.num_unused == 193 + 208
    assert checkpoint.num_bytes == num_bytes - 4 * (193 + 208)
    parts = checkpoint.part_formats
    assert parts["mlp"] == {"nvfp4": 192}
    assert parts["attention"] + parts["delta"] == {"e4m3_row": 208}
    assert checkpoint.head_format == "nvfp4"


def test_unsloth_sums_to_its_file(monkeypatch):
    """The header of 1953 names takes the rest of the file."""
    checkpoint, num_tensors, num_bytes = matched(monkeypatch, unsloth)
    assert num_tensors + 333 == 1953 + 15
    header_bytes = 22_568_192_096 - (num_bytes - MTP_BYTES + VISION_BYTES)
    assert 100_000 < header_bytes < 400_000
    formats = sum(checkpoint.part_formats.values(), start=type(checkpoint.part_formats["mlp"])())
    assert (formats["nvfp4"], formats["e4m3_row"], formats["bf16"]) == (168, 233, 7)
    assert (checkpoint.num_unused, len(checkpoint.kv_scales)) == (168, 32)


@pytest.mark.parametrize(("layout", "gigabytes"), [(modelopt, 21.0), (unsloth, 22.6)])
def test_a_packed_27b_is_held_in_the_bytes_of_its_files(monkeypatch, layout, gigabytes):
    checkpoint, _, _ = matched(monkeypatch, layout)
    plan = plan_memory(checkpoint, "cpu", packed=True)
    assert (plan.stored + plan.expanded) / 1e9 == pytest.approx(gigabytes, abs=0.1)
