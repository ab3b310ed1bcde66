"""The release that is quantised, read part by part, and the names of what is written."""

from collections.abc import Mapping
from pathlib import Path

import torch

from engine.errors import CheckpointError
from engine.model.checkpoint import Checkpoint, open_checkpoint
from engine.model.config_file import read_config
from engine.model.matrix import E4m3Row, Nvfp4
from engine.model.reading import read_expanded
from engine.model.streaming import WeightStream
from engine.model.tensors import TRUNK_PREFIXES
from kernels.linear.formats import NVFP4_GROUP

EMBEDDING, HEAD, MTP = "embedding", "head", "mtp"
COPIED = (
    "tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json",
    "vocab.json", "merges.txt", "special_tokens_map.json", "added_tokens.json", "LICENSE", "NOTICE",
)  # fmt: skip
"""Files that go with the weights, as far as the source has them."""


def open_source(folder: Path) -> Checkpoint:
    """Open what is to be quantised.

    Raises:
        CheckpointError: it does not open, is in 4 bits already, or has inputs that do not divide
            into groups of 16.
    """
    checkpoint = open_checkpoint(folder, read_config(folder))
    for name, one in checkpoint.weights.items():
        if one.format == "nvfp4":
            raise CheckpointError(
                f"{folder} is in NVFP4 already: '{name}' is stored as {one.layout.title}.",
                "Give the BF16 or the FP8 release; what rounding lost does not come back.",
            )
        if one.spec.matrix and one.spec.part != "small" and one.spec.shape[1] % NVFP4_GROUP:
            raise CheckpointError(
                f"{folder}: '{name}' has {one.spec.shape[1]} inputs, which do not divide into "
                f"groups of {NVFP4_GROUP}, so that NVFP4 cannot hold it.",
                "Give a model with other sizes.",
            )
    return checkpoint


def part_names(checkpoint: Checkpoint) -> list[str]:
    """The parts of the result in the order that they are made in; each becomes a file."""
    layers = [f"layers-{index}" for index in range(checkpoint.config.num_layers)]
    head = [HEAD] if "lm_head.weight" in checkpoint.weights else []
    return [EMBEDDING, *head, *layers, *([MTP] if checkpoint.has_mtp else [])]


def part_of(name: str) -> str:
    """The part that a tensor belongs to, by its canonical name."""
    if name.startswith("layers."):
        return f"layers-{name.split('.')[1]}"
    return {"lm_head": HEAD, "mtp": MTP}.get(name.split(".")[0], EMBEDDING)


def read_part(checkpoint: Checkpoint, part: str, device: torch.device) -> dict[str, torch.Tensor]:
    """Read the tensors of a part by canonical name: matrices as the BF16 that they stand for.

    Raises:
        CheckpointError: a file does not read.
    """
    with WeightStream(checkpoint.num_bytes, device) as stream:
        return {
            name: read_expanded(stream, name, one)
            for name, one in checkpoint.weights.items()
            if part_of(name) == part
        }


def source_files(checkpoint: Checkpoint) -> list[Path]:
    """Every file that decides the result: weights, config and tokenizer."""
    weights = {piece.path for one in checkpoint.weights.values() for piece in one.pieces}
    beside = (checkpoint.folder / "config.json", checkpoint.folder / "tokenizer.json")
    return sorted(weights | {one for one in beside if one.is_file()})


def on_disk(tensors: Mapping[str, torch.Tensor | Nvfp4 | E4m3Row]) -> dict[str, torch.Tensor]:
    """Tensors under the names that they are stored by.

    NVFP4 is laid out as modelopt does it (``weight``, ``weight_scale``, ``weight_scale_2``), e4m3
    rows as compressed-tensors does it (``weight``, ``weight_scale`` F32 [N, 1]).
    """
    found: dict[str, torch.Tensor] = {}
    for short, one in tensors.items():
        is_bare = short.startswith(("mtp.", "lm_head."))
        name = short if is_bare else TRUNK_PREFIXES[0] + short
        if isinstance(one, Nvfp4):
            found[name] = one.codes
            found[f"{name}_scale"] = one.scales
            found[f"{name}_scale_2"] = one.tensor_scale
        elif isinstance(one, E4m3Row):
            found[name] = one.codes
            found[f"{name}_scale"] = one.scales[:, None]
        else:
            found[name] = one
    return found


def from_disk(stored: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor | Nvfp4]:
    """What `on_disk` made of a layer, by canonical name again."""
    found: dict[str, torch.Tensor | Nvfp4] = {}
    for name, one in stored.items():
        if name.endswith(("_scale", "_scale_2")):
            continue
        short = name.removeprefix(TRUNK_PREFIXES[0])
        found[short] = one
        if f"{name}_scale_2" in stored:
            found[short] = Nvfp4(one, stored[f"{name}_scale"], stored[f"{name}_scale_2"])
    return found
