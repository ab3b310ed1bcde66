"""A DFlash2 drafter as it lies on disk, matched with its config tensor by tensor."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from engine.dflash.config import DflashConfig, expect_fit, read_dflash_config
from engine.errors import CheckpointError, nearest
from engine.model.config import ModelConfig
from engine.model.layouts import PLAIN_DTYPES, StoredWeight
from engine.model.shards import read_shards
from engine.model.tensors import TensorSpec

AGAIN = "Download the drafter again."

REPOSITORIES = ("z-lab/Qwen3.8-27B-DFlash2", "incoai/Qwen3.8-27B-DFlash2")
"""Where the drafter of Qwen3.8-27B is published; the second is a copy of the first."""

CONVS = ("attention_conv", "mlp_conv")


@dataclass(frozen=True, slots=True)
class DflashCheckpoint:
    """Every tensor of a drafter by its name, in the order of the files."""

    folder: Path
    config: DflashConfig
    weights: Mapping[str, StoredWeight]

    @property
    def num_bytes(self) -> int:
        """Bytes to read."""
        return sum(one.num_bytes for one in self.weights.values())


def dflash_tensors(config: DflashConfig) -> dict[str, TensorSpec]:
    """Every tensor of a drafter; embedding and head are the target's."""
    narrow, rank, vocab = config.hidden_size, config.selector_rank, config.vocab_size
    found = {
        "fc.weight": TensorSpec((narrow, config.context_width), "mtp", matrix=True),
        "hidden_norm.weight": TensorSpec((narrow,), "small"),
        "norm.weight": TensorSpec((narrow,), "small"),
        "candidate_selector.hidden_projection.weight": TensorSpec((rank, narrow), "small", True),
        "candidate_selector.predecessor_codebook": TensorSpec((vocab, rank), "small"),
        "candidate_selector.successor_codebook": TensorSpec((vocab, rank), "small"),
    }
    for index in range(config.num_layers):
        for name, spec in _layer(config).items():
            found[f"layers.{index}.{name}"] = spec
    return found


def open_dflash(folder: Path, target: ModelConfig) -> DflashCheckpoint:
    """Check a drafter's config and headers; reads no weights.

    Args:
        folder: holds config.json and the weights.
        target: the model that it shall draft for.

    Raises:
        CheckpointError: the config is refused or does not fit the target, a file is refused (see
            `read_shards`), or a tensor is missing, foreign, of a wrong shape or not plain.
    """
    if not (folder / "config.json").is_file():
        raise CheckpointError(
            f"'draft.dflash_dir' is {folder}, which holds no config.json, so it is no drafter.",
            "Give the folder of a DFlash2 drafter, such as z-lab/Qwen3.8-27B-DFlash2.",
        )
    config = read_dflash_config(folder)
    expect_fit(folder, config, target)
    stored, expected = read_shards(folder), dflash_tensors(config)
    for name, tensor in stored.items():
        if name not in expected:
            raise CheckpointError(
                f"{tensor.path} holds '{name[:200]}', which a DFlash2 drafter does not have.",
                nearest(name, expected),
            )
    weights: dict[str, StoredWeight] = {}
    for name, spec in expected.items():
        tensor = stored.get(name)
        if tensor is None:
            raise CheckpointError(
                f"{folder} lacks the tensor '{name}' of a DFlash2 drafter.", AGAIN
            )
        where = f"{tensor.path}: '{name}'"
        if tensor.shape != spec.shape:
            raise CheckpointError(
                f"{where} has the shape {list(tensor.shape)}, the config calls for "
                f"{list(spec.shape)}.",
                AGAIN,
            )
        if tensor.dtype not in PLAIN_DTYPES:
            raise CheckpointError(
                f"{where} has the dtype {tensor.dtype}, expected {', '.join(PLAIN_DTYPES)}.", AGAIN
            )
        weights[name] = StoredWeight(spec, tensor)
    in_order = sorted(weights.items(), key=lambda i: (i[1].weight.path, i[1].weight.offset))
    return DflashCheckpoint(folder, config, dict(in_order))


def _layer(config: DflashConfig) -> dict[str, TensorSpec]:
    narrow, wide, head = config.hidden_size, config.intermediate_size, config.head_dim
    query, kv = config.num_heads * head, config.num_kv_heads * head
    found = {
        "input_layernorm.weight": TensorSpec((narrow,), "small"),
        "post_attention_layernorm.weight": TensorSpec((narrow,), "small"),
        "self_attn.q_proj.weight": TensorSpec((query, narrow), "mtp", matrix=True),
        "self_attn.k_proj.weight": TensorSpec((kv, narrow), "mtp", matrix=True),
        "self_attn.v_proj.weight": TensorSpec((kv, narrow), "mtp", matrix=True),
        "self_attn.o_proj.weight": TensorSpec((narrow, query), "mtp", matrix=True),
        "self_attn.q_norm.weight": TensorSpec((head,), "small"),
        "self_attn.k_norm.weight": TensorSpec((head,), "small"),
        "mlp.gate_proj.weight": TensorSpec((wide, narrow), "mtp", matrix=True),
        "mlp.up_proj.weight": TensorSpec((wide, narrow), "mtp", matrix=True),
        "mlp.down_proj.weight": TensorSpec((narrow, wide), "mtp", matrix=True),
    }
    sides, taps = 2, config.conv_taps
    for name in CONVS:
        found[f"{name}.base_kernel"] = TensorSpec((sides, taps, narrow), "small")
        rows = sides * taps * config.num_groups
        found[f"{name}.kernel_projection.weight"] = TensorSpec((rows, narrow), "small", matrix=True)
    return found
