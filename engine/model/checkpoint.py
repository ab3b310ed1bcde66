"""A checkpoint as it lies on disk, matched with what the config calls for, tensor by tensor.

Nothing here reads weights or allocates memory for them. The format of each tensor follows from
what is stored, never from a list in the config.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from engine.errors import CheckpointError, nearest
from engine.model.config import ModelConfig
from engine.model.config_file import read_config
from engine.model.layouts import PLAIN_DTYPES, StoredWeight, belongs_to_weight, match_matrix
from engine.model.overlay import INPUT_SCALES, read_overlay
from engine.model.safetensors_header import StoredTensor
from engine.model.scale_values import expect_scales
from engine.model.shards import read_shards
from engine.model.tensors import TRUNK_PREFIXES, VISION_PREFIXES, TensorSpec, expected_tensors
from engine.profile import WeightFormat

AGAIN = "Download the checkpoint again, or give one of the Qwen releases in BF16 or FP8."

KV_SCALES = ("k_scale", "v_scale")
"""Calibrated scales of keys and values in 8 bits, one number a layer."""

_TRUNK_LAYER = re.compile(r"layers\.(\d+)\.")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Every tensor to load by canonical name, in the order of the files.

    ``kv_scales`` are those of keys and values in 8 bits, by layer and "k" or "v", which are read
    when those are kept so. ``num_unused`` counts scales of activations, and of the MTP layer's keys
    and values, which are known and not read.
    """

    folder: Path
    config: ModelConfig
    weights: Mapping[str, StoredWeight]
    num_unused: int = 0
    kv_scales: Mapping[tuple[int, str], StoredTensor] = field(
        default_factory=dict[tuple[int, str], StoredTensor]
    )

    @property
    def num_bytes(self) -> int:
        """Bytes to read."""
        return sum(one.num_bytes for one in self.weights.values())

    @property
    def has_mtp(self) -> bool:
        """Whether the MTP head is there."""
        return "mtp.fc.weight" in self.weights

    @property
    def head_format(self) -> WeightFormat:
        """How the head is stored; a tied one is the embedding."""
        head = self.weights.get("lm_head.weight")
        return head.format if head is not None else "bf16"

    @property
    def part_formats(self) -> dict[str, Counter[WeightFormat]]:
        """How many matrices of each part that a profile names are stored in which format."""
        found: dict[str, Counter[WeightFormat]] = {}
        for one in self.weights.values():
            if one.spec.matrix and one.spec.part != "small":
                found.setdefault(one.spec.part, Counter())[one.format] += 1
        return found


def open_checkpoint(folder: Path, config: ModelConfig, overlay: Path | None = None) -> Checkpoint:
    """Check a checkpoint's files against the config, and look at every scale.

    The MTP layer may be left out as a whole, as text-only exports do.

    Args:
        folder: holds the files.
        config: of the folder.
        overlay: holds part files whose matrices take the place of the folder's.

    Raises:
        CheckpointError: the headers are refused (see `match_checkpoint`), or a scale is negative,
            not finite or a divisor without an inverse. The sentence names the tensor.
    """
    checkpoint = match_checkpoint(folder, config, overlay)
    for one in checkpoint.weights.values():
        expect_scales(one)
    return checkpoint


def match_checkpoint(folder: Path, config: ModelConfig, overlay: Path | None = None) -> Checkpoint:
    """Match the headers of a checkpoint's files with the config; reads nothing else.

    Arguments as in `open_checkpoint`.

    Raises:
        CheckpointError: a file is refused (see `read_shards` and `read_overlay`), a tensor is
            missing, foreign, of the wrong shape or dtype, or stored in a layout that is not read.
            The sentence names the tensor.
    """
    stored = _canonical(read_shards(folder))
    expected = expected_tensors(config)
    if not any(name.startswith("mtp.") for name in stored):
        expected = {name: one for name, one in expected.items() if not name.startswith("mtp.")}
    if overlay is not None:
        stored = _laid_over(stored, read_overlay(overlay, expected))
    pieces = _by_matrix(stored, expected)
    weights = {
        name: _match(folder, name, spec, stored, pieces.get(name, {}))
        for name, spec in expected.items()
    }
    used = {(one.path, one.name) for weight in weights.values() for one in weight.pieces}
    unused, kv_scales = 0, dict[tuple[int, str], StoredTensor]()
    for name, tensor in stored.items():
        if (tensor.path, tensor.name) in used:
            continue
        if not _is_known_unused(name, tensor, expected):
            raise CheckpointError(
                f"{tensor.path} holds '{tensor.name[:200]}', which this model does not have.",
                nearest(name, expected) if len(expected) < 4096 else AGAIN,
            )
        leaf, layer = name.rpartition(".")[2], _TRUNK_LAYER.match(name)
        if leaf in KV_SCALES and layer is not None and tensor.dtype in PLAIN_DTYPES:
            kv_scales[int(layer[1]), leaf[0]] = tensor
        else:
            unused += 1
    in_order = sorted(weights.items(), key=lambda i: (i[1].weight.path, i[1].weight.offset))
    return Checkpoint(folder, config, dict(in_order), unused, kv_scales)


def refusal_of(folder: Path) -> CheckpointError | None:
    """Why a folder does not open, as far as its config and headers tell; None where it does."""
    try:
        match_checkpoint(folder, read_config(folder))
    except CheckpointError as error:
        return error
    return None


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


def _laid_over(
    stored: Mapping[str, StoredTensor], parts: Mapping[str, Mapping[str, StoredTensor]]
) -> dict[str, StoredTensor]:
    """A release's tensors, those of each replaced matrix taken out as a whole before its parts."""
    modules = {name.removesuffix(".weight") for name in parts}
    kept: dict[str, StoredTensor] = {}
    for name, tensor in stored.items():
        module, _, leaf = name.rpartition(".")
        if module not in modules or not (belongs_to_weight(leaf) or leaf in INPUT_SCALES):
            kept[name] = tensor
    for name, pieces in parts.items():
        module = name.removesuffix(".weight")
        kept |= {f"{module}.{leaf}": tensor for leaf, tensor in pieces.items()}
    return kept


def _by_matrix(
    stored: Mapping[str, StoredTensor], expected: Mapping[str, TensorSpec]
) -> dict[str, dict[str, StoredTensor]]:
    """The tensors that store each expected matrix, by their names within its module."""
    found: dict[str, dict[str, StoredTensor]] = {}
    for name, tensor in stored.items():
        module, _, leaf = name.rpartition(".")
        spec = expected.get(f"{module}.weight")
        if spec is not None and spec.matrix and belongs_to_weight(leaf):
            found.setdefault(f"{module}.weight", {})[leaf] = tensor
    return found


def _match(
    folder: Path,
    name: str,
    spec: TensorSpec,
    stored: Mapping[str, StoredTensor],
    pieces: Mapping[str, StoredTensor],
) -> StoredWeight:
    tensor = stored.get(name)
    if tensor is None and not pieces:
        raise CheckpointError(
            f"{folder} lacks the tensor '{name}' that its config calls for.", AGAIN
        )
    is_plain = tensor is not None and tensor.dtype in PLAIN_DTYPES and len(pieces) < 2
    if spec.matrix and not is_plain:
        return match_matrix(name.removesuffix(".weight"), spec, pieces)
    assert tensor is not None
    where = f"{tensor.path}: '{tensor.name[:200]}'"
    if tensor.shape != spec.shape:
        mlx = name.endswith("conv1d.weight") and tensor.shape == (*spec.shape[::2], 1)
        raise CheckpointError(
            f"{where} has the shape {list(tensor.shape)}, the config calls for {list(spec.shape)}.",
            "This is an MLX conversion; give the original release." if mlx else AGAIN,
        )
    if tensor.dtype not in PLAIN_DTYPES:
        raise CheckpointError(
            f"{where} has the dtype {tensor.dtype}, expected {', '.join(PLAIN_DTYPES)}.", AGAIN
        )
    return StoredWeight(spec, tensor)


def _is_known_unused(name: str, tensor: StoredTensor, expected: Mapping[str, TensorSpec]) -> bool:
    """Whether a tensor is a matrix's scale of activations, or a layer's of a KV cache."""
    module, _, leaf = name.rpartition(".")
    if tensor.shape not in ((), (1,)):
        return False
    if leaf in KV_SCALES:
        # in the attention layer (compressed-tensors), or with its own projection (modelopt)
        projection = f"{leaf[0]}_proj"
        module = f"{module.removesuffix('.' + projection)}.{projection}"
    elif leaf not in INPUT_SCALES:
        return False
    spec = expected.get(f"{module}.weight")
    return spec is not None and spec.matrix
