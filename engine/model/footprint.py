"""Bytes and parameters of a model, from its config and formats alone; nothing is allocated."""

from engine.model.config import ModelConfig
from engine.model.tensors import TensorSpec, expected_tensors, format_of
from engine.profile import Formats, WeightFormat
from kernels.linear.formats import FP8_BLOCK, NVFP4_GROUP


def count_parameters(config: ModelConfig, *, with_mtp: bool = True) -> int:
    """Parameters of the trunk, the head and, unless left out, the MTP layer."""
    return sum(
        spec.num_elements
        for name, spec in expected_tensors(config).items()
        if with_mtp or not name.startswith("mtp.")
    )


def stored_bytes(spec: TensorSpec, stored: WeightFormat) -> int:
    """Bytes of one tensor in a storage format, scales included."""
    if stored == "bf16":
        return 2 * spec.num_elements
    num_rows, width = spec.shape
    if stored == "fp8_block":
        return num_rows * width + 2 * -(-num_rows // FP8_BLOCK) * -(-width // FP8_BLOCK)
    if stored == "e4m3_row":
        return num_rows * width + 4 * num_rows
    return num_rows * (width // 2 + width // NVFP4_GROUP) + 4


def weight_bytes(config: ModelConfig, formats: Formats) -> dict[str, int]:
    """Bytes of all weights by part: ``embedding``, ``weights``, ``head``, ``mtp``."""
    total = {"embedding": 0, "weights": 0, "head": 0, "mtp": 0}
    for name, spec in expected_tensors(config).items():
        part = "mtp" if name.startswith("mtp.") else spec.part
        total[part if part in total else "weights"] += stored_bytes(spec, format_of(spec, formats))
    return total


def state_bytes(config: ModelConfig) -> int:
    """Bytes of the fp32 recurrent states of one conversation."""
    per_layer = config.num_value_heads * config.key_head_dim * config.value_head_dim
    return 4 * per_layer * config.num_delta_layers


def tail_bytes(config: ModelConfig) -> int:
    """Bytes of the BF16 rows that the convolutions look back at."""
    return 2 * (config.conv_width - 1) * config.conv_dim * config.num_delta_layers


def kv_bytes_per_token(config: ModelConfig) -> int:
    """Bytes of BF16 keys and values that one token adds, without the MTP layer."""
    return 2 * 2 * config.kv_dim * config.num_attention_layers


def mtp_kv_bytes_per_token(config: ModelConfig) -> int:
    """Bytes of BF16 keys and values that one token adds in the MTP layer."""
    return 2 * 2 * config.kv_dim * config.num_mtp_layers


def round_bytes(
    config: ModelConfig,
    formats: Formats,
    context_tokens: int,
    *,
    rows: int = 1,
    num_drafted: int = 0,
) -> dict[str, int]:
    """Bytes that a decode round's kernels must move, by `engine.records.BYTE_PARTS`.

    Weights and head are read once whatever the rows; recurrent states and tails are read and
    written once; keys and values of the context are read and those of the rows written. Each
    drafted token reads the MTP layer, the head and the MTP layer's keys and values.

    Args:
        config: the model's numbers.
        formats: storage format of each part.
        context_tokens: positions held before the round.
        rows: verified positions, 1 without drafting.
        num_drafted: tokens that the MTP head proposed.
    """
    weights = weight_bytes(config, formats)
    head = weights["embedding"] if config.tie_word_embeddings else weights["head"]
    embedded = 2 * config.hidden_size  # one embedding row a token
    drafted = weights["mtp"] + head + embedded + mtp_kv_bytes_per_token(config) * context_tokens
    return {
        "weights": weights["weights"] + rows * embedded,
        "head": head,
        "state": 2 * (state_bytes(config) + tail_bytes(config)),
        "kv": kv_bytes_per_token(config) * (context_tokens + rows),
        "drafter": num_drafted * drafted,
    }
