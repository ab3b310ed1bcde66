"""What a run will take of memory and disk, told and compared with what is there before it begins."""

from dataclasses import dataclass
from pathlib import Path
from shutil import disk_usage
from typing import Any, cast

import torch

from engine.errors import MemoryPlanError, RequestError
from engine.model.config import ModelConfig
from engine.model.footprint import weight_bytes
from engine.model.memory import available_bytes
from engine.model.streaming import STAGING_BYTES
from engine.model.tensors import TensorSpec, expected_tensors
from engine.profile import Formats
from engine.quantize.clip import OFFSETS
from engine.quantize.methods import ELEMENTS_PER_BLOCK, needs_inputs

FORMATS = Formats(mlp="nvfp4", attention="nvfp4", delta="nvfp4", head="e4m3_row", mtp="nvfp4")
"""What every part becomes: the formats of the profile ``nvfp4``."""

SLACK_BYTES = 512 << 20
"""Workspaces of libraries, and what an allocator leaves unused between tensors."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Most bytes at a time: on the device, on the host beside it, and written to disk."""

    device: int
    host: int
    disk: int

    def told(self, device: str) -> str:
        """The plan in a sentence."""
        where = (
            "of memory" if device == "cpu" else f"on the GPU and {self.host / 1e9:.1f} GB beside it"
        )
        total = self.device + self.host if device == "cpu" else self.device
        return (
            f"It takes {total / 1e9:.1f} GB {where} at most, and {self.disk / 1e9:.2f} GB of disk."
        )


def plan_run(config: ModelConfig, method: str, num_tokens: int, sequence_tokens: int) -> Plan:
    """Count what quantising a model takes.

    Args:
        config: the model's numbers.
        method: one of ``methods.METHODS``.
        num_tokens: of the calibration; 0 where there is none.
        sequence_tokens: of its longest sequence.
    """
    expected = expected_tensors(config)
    layer = max(_layer_bytes(config, expected).values())
    work = max(_work_bytes(spec, method) for spec in expected.values() if _is_projection(spec))
    rows = forward = 0
    if needs_inputs(method):
        rows = 2 * num_tokens * config.hidden_size
        forward = sequence_tokens * _row_bytes(config, sequence_tokens)
    embedding = 2 * config.vocab_size * config.hidden_size
    return Plan(
        # a head is quantised on the device before the first layer comes
        device=max(layer + rows + max(work, forward), embedding + rows + embedding // 2)
        + SLACK_BYTES,
        host=embedding + 2 * STAGING_BYTES,
        disk=sum(weight_bytes(config, FORMATS).values()),
    )


def expect_room(plan: Plan, device: str, out: Path, num_written: int) -> None:
    """Refuse what does not fit.

    Args:
        plan: of the run.
        device: "cpu" or "cuda".
        out: the folder of the result, which may not exist yet.
        num_written: bytes of it that are on disk already.

    Raises:
        MemoryPlanError: device or host have too little memory free.
        RequestError: the disk has too little room.
    """
    mend = "Close other programs, or give fewer --tokens or a shorter --sequence."
    free = available_bytes(device)
    shared = device == "cpu" or _is_integrated(device)
    wanted = plan.device + (plan.host if shared else 0)
    if wanted > free:
        raise MemoryPlanError(
            f"Quantising needs {wanted / 1e9:.1f} GB of memory and {free / 1e9:.1f} GB are free.",
            mend,
        )
    beside = available_bytes("cpu")
    if not shared and plan.host > beside:
        raise MemoryPlanError(
            f"Quantising needs {plan.host / 1e9:.1f} GB of memory beside the GPU's and "
            f"{beside / 1e9:.1f} GB are free.",
            mend,
        )
    left = max(0, plan.disk - num_written)
    room = disk_usage(next(one for one in (out, *out.absolute().parents) if one.exists())).free
    if left > room:
        raise RequestError(
            f"The result needs {left / 1e9:.2f} GB more and the disk of {out} has "
            f"{room / 1e9:.2f} GB free.",
            "Make room, or give a folder on another disk.",
        )


def _is_integrated(device: str) -> bool:
    return bool(cast("Any", torch.cuda).get_device_properties(device).is_integrated)


def _is_projection(spec: TensorSpec) -> bool:
    return spec.matrix and spec.part not in ("small", "head")


def _layer_bytes(config: ModelConfig, expected: dict[str, TensorSpec]) -> dict[str, int]:
    """Bytes of each layer in BF16; of the MTP head with what joins its inputs."""
    found: dict[str, int] = {}
    for name, spec in expected.items():
        layer = name.split(".")[1] if name.startswith("layers.") else name.split(".")[0]
        if name.startswith(("layers.", "mtp.")):
            found[layer] = found.get(layer, 0) + 2 * spec.num_elements
    return found


def _work_bytes(spec: TensorSpec, method: str) -> int:
    """Beside the layer's weights: what rounding one matrix takes."""
    num_rows, width = spec.shape
    elements, square = num_rows * width, 4 * width * width
    # the result, its values, and blocks of fp32 with their candidates or errors
    result = elements * 2 + elements * 5 // 8 + 4 * 4 * ELEMENTS_PER_BLOCK
    if method == "nearest":
        return result
    if method == "clip":
        return result + 2 * square
    # moments, their damped copy, its factor and the inverse; later moments, inverse, fp32 weights
    return (
        max(
            5 * square,
            2 * square + 4 * elements + 2 * elements + 6 * 4 * num_rows * 16 * len(OFFSETS),
        )
        + result
    )


def _row_bytes(config: ModelConfig, sequence_tokens: int) -> int:
    """Bytes that a row of a sequence takes at the widest place of a layer, for its gathering too."""
    mlp = 2 * 4 * config.intermediate_size
    share = config.num_heads // config.num_kv_heads
    attention = 2 * (3 * config.query_dim + 4 * config.kv_dim) + 12 * share * sequence_tokens
    heads = config.num_value_heads * (config.key_head_dim + config.value_head_dim)
    delta = 4 * 8 * heads + 2 * (3 * config.conv_dim + 2 * config.value_dim)
    # fp32 copies of the rows on a CPU, whose library adds no BF16 in fp32
    return max(mlp, attention, delta) + 6 * config.intermediate_size + 8 * config.hidden_size
