"""A checkpoint as it lies on disk, matched with what the config calls for, tensor by tensor.

Nothing here reads weights or allocates memory for them. The format of each tensor follows from
what is stored, never from a list in the config.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from engine.errors import CheckpointError, nearest
from engine.model.config import ModelConfig
from engine.model.safetensors_header import StoredTensor
from engine.model.shards import read_shards
from engine.model.tensors import TRUNK_PREFIXES, VISION_PREFIXES, TensorSpec, expected_tensors
from kernels.linear.formats import FP8_BLOCK

PLAIN_DTYPES = ("BF16", "F16", "F32")
SCALE_SUFFIX = "_scale_inv"
"""``X.weight`` in F8_E4M3 has its scales in ``X.weight_scale_inv``, a multiplier."""

AGAIN = "Download the checkpoint again, or give one of the Qwen releases in BF16 or FP8."


@dataclass(frozen=True, slots=True)
class StoredWeight:
    """One expected tensor and where it lies; ``scales`` is given for 8-bit matrices only."""

    spec: TensorSpec
    weight: StoredTensor
    scales: StoredTensor | None = None

    @property
    def num_bytes(self) -> int:
        """Bytes on disk."""
        return self.weight.num_bytes + (self.scales.num_bytes if self.scales else 0)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Every tensor to load by canonical name, in the order of the files."""

    folder: Path
    config: ModelConfig
    weights: Mapping[str, StoredWeight]

    @property
    def num_bytes(self) -> int:
        """Bytes to read."""
        return sum(one.num_bytes for one in self.weights.values())

    @property
    def has_mtp(self) -> bool:
        """Whether the MTP head is there."""
        return "mtp.fc.weight" in self.weights


def open_checkpoint(folder: Path, config: ModelConfig) -> Checkpoint:
    """Check a checkpoint's files against the config.

    The MTP layer may be left out as a whole, as text-only exports do.

    Raises:
        CheckpointError: a file is refused (see `read_shards`), a tensor is missing, foreign, of
            the wrong shape or dtype, stored in a layout that is not readable, or scales are
            negative or not finite. The sentence names the tensor.
    """
    stored = _canonical(read_shards(folder))
    expected = expected_tensors(config)
    _refuse_other_layouts(stored)
    if not any(name.startswith("mtp.") for name in stored):
        expected = {name: one for name, one in expected.items() if not name.startswith("mtp.")}
    weights = {name: _match(folder, name, spec, stored) for name, spec in expected.items()}
    used = {*expected, *(n + SCALE_SUFFIX for n, one in weights.items() if one.scales)}
    for name, tensor in stored.items():
        if name not in used:
            raise CheckpointError(
                f"{tensor.path} holds '{tensor.name[:200]}', which this model does not have.",
                nearest(name, expected) if len(expected) < 4096 else AGAIN,
            )
    for one in weights.values():
        if one.scales is not None:
            _check_scales(one.scales)
    in_order = sorted(weights.items(), key=lambda i: (i[1].weight.path.name, i[1].weight.offset))
    return Checkpoint(folder, config, dict(in_order))


def _canonical(on_disk: Mapping[str, StoredTensor]) -> dict[str, StoredTensor]:
    """Strip the trunk's prefix and leave out the vision tower."""
    found: dict[str, StoredTensor] = {}
    for name, tensor in on_disk.items():
        if name.startswith(VISION_PREFIXES):
            continue
        prefix = next((one for one in TRUNK_PREFIXES if name.startswith(one)), "")
        short = name[len(prefix) :]
        if short in found:
            raise CheckpointError(
                f"{tensor.path} holds '{name[:200]}', which is '{found[short].name[:200]}' again.",
                AGAIN,
            )
        found[short] = tensor
    return found


def _refuse_other_layouts(stored: Mapping[str, StoredTensor]) -> None:
    """Recognise scale layouts that are not readable yet and refuse them by name."""
    for name, tensor in stored.items():
        base = name.removesuffix(".weight")
        scale = stored.get(base + ".weight_scale")
        layout = ""
        if name.endswith((".weight_packed", ".weight_global_scale")):
            layout = "compressed-tensors NVFP4"
        elif name.endswith(".weight_scale_2"):
            layout = "modelopt NVFP4"
        elif tensor.dtype == "U8":
            layout = "modelopt NVFP4" if f"{base}.weight_scale_2" in stored else "packed U8 codes"
        elif name.endswith(".weight") and scale is not None:
            per_tensor = scale.shape in ((), (1,))
            layout = "modelopt FP8 per tensor" if per_tensor else "compressed-tensors FP8 per row"
        elif tensor.dtype in ("F8_E5M2", "F8_E8M0"):
            layout = f"{tensor.dtype} codes"
        if layout:
            raise CheckpointError(
                f"{tensor.path}: '{tensor.name[:200]}' ({tensor.dtype} {list(tensor.shape)}) is "
                f"{layout}; not readable yet.",
                "Give one of the Qwen releases in BF16 or FP8 (128 x 128 blocks).",
            )


def _match(
    folder: Path, name: str, spec: TensorSpec, stored: Mapping[str, StoredTensor]
) -> StoredWeight:
    tensor, scales = stored.get(name), stored.get(name + SCALE_SUFFIX)
    if tensor is None:
        raise CheckpointError(
            f"{folder} lacks the tensor '{name}' that its config calls for.", AGAIN
        )
    where = f"{tensor.path}: '{tensor.name[:200]}'"
    if tensor.shape != spec.shape:
        mlx = name.endswith("conv1d.weight") and tensor.shape == (*spec.shape[::2], 1)
        raise CheckpointError(
            f"{where} has the shape {list(tensor.shape)}, the config calls for {list(spec.shape)}.",
            "This is an MLX conversion; give the original release." if mlx else AGAIN,
        )
    if tensor.dtype in PLAIN_DTYPES:
        if scales is not None:
            raise CheckpointError(
                f"{scales.path}: '{scales.name[:200]}' scales a weight that is {tensor.dtype}, not "
                "F8_E4M3.",
                AGAIN,
            )
        return StoredWeight(spec, tensor)
    if tensor.dtype != "F8_E4M3" or not spec.matrix:
        also = " or F8_E4M3 with scales" if spec.matrix else ""
        raise CheckpointError(
            f"{where} has the dtype {tensor.dtype}, expected {', '.join(PLAIN_DTYPES)}{also}.",
            AGAIN,
        )
    if scales is None:
        raise CheckpointError(
            f"{where} is F8_E4M3, but its scales '{name}{SCALE_SUFFIX}' are missing.", AGAIN
        )
    blocks = tuple(-(-size // FP8_BLOCK) for size in spec.shape)
    if scales.dtype != "BF16" or scales.shape != blocks:
        raise CheckpointError(
            f"{scales.path}: '{scales.name[:200]}' is {scales.dtype} {list(scales.shape)}, "
            f"expected BF16 {list(blocks)}: one scale a block of {FP8_BLOCK} x {FP8_BLOCK}.",
            AGAIN,
        )
    return StoredWeight(spec, tensor, scales)


def _check_scales(scales: StoredTensor) -> None:
    """Refuse BF16 scales that are negative, infinite or not a number, by their bits."""
    try:
        with scales.path.open("rb") as file:
            file.seek(scales.offset)
            bits = np.frombuffer(file.read(scales.num_bytes), dtype="<u2")
    except OSError as problem:
        raise CheckpointError(f"{scales.path} does not read: {problem.strerror}.", AGAIN) from None
    endless = (bits & 0x7F80) == 0x7F80
    negative = (bits >= 0x8000) & (bits != 0x8000)
    wrong = np.flatnonzero(endless | negative)
    if wrong.size or bits.size * 2 != scales.num_bytes:
        first = int(wrong[0]) if wrong.size else int(bits.size)
        value = "not finite" if wrong.size and endless[first] else "negative or missing"
        raise CheckpointError(
            f"{scales.path}: scale {first} of '{scales.name[:200]}' is {value}.", AGAIN
        )
