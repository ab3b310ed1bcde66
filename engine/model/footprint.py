"""Bytes and parameters of a model, from its config and formats alone; nothing is allocated."""

from collections.abc import Mapping

from engine.model.config import ModelConfig
from engine.model.groups import group_of
from engine.model.tensors import (
    WEIGHT_PARTS,
    TensorSpec,
    expected_tensors,
    format_of,
    weight_part,
)
from engine.profile import Formats, WeightFormat
from engine.types import KvFormat
from kernels.common.round import MAX_ROWS
from kernels.linear.formats import FP8_BLOCK, NVFP4_GROUP, STEP, TILE_ROWS

KV_BYTES: dict[KvFormat, int] = {"bf16": 2, "fp8": 1}
"""Of a number of keys or values."""

NUM_DRAFT_IDS = 32_768
"""Ids that drafts may have: 0.17 GB of the 27B's 1.27 GB e4m3 head (`engine.model.draft_head`)."""

MOST_WIDE_HEAD_BYTES = 64 << 20
"""A head that takes no more in fp32 is held so by the reference; the 27B's would take 5 GB."""


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


def packed_bytes(spec: TensorSpec, stored: WeightFormat) -> int:
    """Bytes of one matrix packed for the kernels: inputs padded to whole steps, scales widened.

    A matrix that is joined with others takes the same: members end where scales begin.
    """
    num_rows, width = spec.shape
    num_steps = -(-width // STEP)
    if stored == "bf16":
        return 2 * num_rows * num_steps * STEP
    if stored == "fp8_block":
        return num_rows * num_steps * STEP + 4 * -(-num_rows // FP8_BLOCK) * num_steps
    if stored == "e4m3_row":
        return num_rows * num_steps * STEP + 4 * num_rows
    tiles = -(-num_rows // TILE_ROWS)
    scales = tiles * TILE_ROWS * num_steps * (STEP // NVFP4_GROUP)
    return num_rows * num_steps * STEP // 2 + scales + 4 * num_rows


def weight_bytes(config: ModelConfig, formats: Formats, *, packed: bool = False) -> dict[str, int]:
    """Bytes of all weights by part: ``embedding``, ``weights``, ``head``, ``mtp``.

    A part ``draft_head`` stands beside them where drafts are chosen with a copy of some rows of a
    packed head.

    Args:
        config: the model's numbers.
        formats: storage format of each part.
        packed: matrices are packed for the kernels, not as stored.
    """
    total = dict.fromkeys(WEIGHT_PARTS, 0)
    for name, spec in expected_tensors(config).items():
        count = packed_bytes if packed and spec.matrix else stored_bytes
        total[weight_part(name, spec)] += count(spec, format_of(spec, formats))
    if packed:
        total["head"] += tied_head_bytes(config)
        head = "bf16" if config.tie_word_embeddings else formats.head
        if config.num_mtp_layers and (draft := draft_head_bytes(config, head)):
            total["draft_head"] = draft
    return total


def draft_head_bytes(config: ModelConfig, head: WeightFormat) -> int:
    """Bytes of the part of a packed head that drafts are chosen with; 0 where it serves whole.

    Args:
        config: the model's numbers.
        head: the whole head's format.
    """
    num_rows = NUM_DRAFT_IDS
    if config.vocab_size <= num_rows or head not in ("bf16", "e4m3_row"):
        return 0
    spec = TensorSpec((num_rows, config.hidden_size), "head", matrix=True)
    return packed_bytes(spec, head) + 4 * num_rows


def wide_head_bytes(config: ModelConfig) -> int:
    """Bytes of a small head in fp32, which the reference scores with; 0 of a large one."""
    num_bytes = 4 * config.vocab_size * config.hidden_size
    return num_bytes if num_bytes <= MOST_WIDE_HEAD_BYTES else 0


def tied_head_bytes(config: ModelConfig) -> int:
    """Bytes of the padded copy that a packed head makes of a tied embedding; mostly none."""
    if not config.tie_word_embeddings or config.hidden_size % STEP == 0:
        return 0
    shape = (config.vocab_size, config.hidden_size)
    return packed_bytes(TensorSpec(shape, "head", matrix=True), "bf16")


def workspace_bytes(config: ModelConfig) -> int:
    """Bytes that widening the largest packed weight takes, with the members of its group.

    Joining a group while it loads takes no more, and is over before the first product.
    """
    sizes: dict[tuple[str, ...], int] = {}
    for name, spec in expected_tensors(config).items():
        if spec.matrix and spec.part != "head":
            group = group_of(name)
            sizes[group] = sizes.get(group, 0) + 2 * spec.num_elements
    return max(sizes.values())


def state_bytes(config: ModelConfig) -> int:
    """Bytes of the fp32 recurrent states of one conversation."""
    per_layer = config.num_value_heads * config.key_head_dim * config.value_head_dim
    return 4 * per_layer * config.num_delta_layers


def tail_bytes(config: ModelConfig) -> int:
    """Bytes of the BF16 rows that the convolutions look back at."""
    return 2 * (config.conv_width - 1) * config.conv_dim * config.num_delta_layers


def record_bytes(config: ModelConfig) -> int:
    """Bytes that rounds of up to 32 rows keep beside a conversation's state on a GPU.

    Two halves of the rows' raw channels, keys, writes and decays, the second half of the tails, and
    a round's hidden rows and logits.
    """
    heads = config.num_value_heads
    raw, keys = 2 * config.conv_dim, 4 * config.key_dim
    row = raw + keys + 4 * heads * (config.value_head_dim + 1)
    halves = 2 * MAX_ROWS * row * config.num_delta_layers
    results = MAX_ROWS * (2 * config.hidden_size + 4 * config.vocab_size)
    return halves + tail_bytes(config) + results


def kv_bytes_per_token(config: ModelConfig, kv: KvFormat = "bf16") -> int:
    """Bytes of keys and values that one token adds, without the MTP layer."""
    return 2 * KV_BYTES[kv] * config.kv_dim * config.num_attention_layers


def kv_scale_bytes(config: ModelConfig, kv: KvFormat) -> int:
    """Bytes of the scales of codes: fp32, one for keys and one for values a layer and KV head."""
    heads = config.num_attention_layers * config.num_kv_heads
    return 2 * 4 * heads if kv == "fp8" else 0


def mtp_kv_bytes_per_token(config: ModelConfig) -> int:
    """Bytes of keys and values, always BF16, that one token adds in the MTP layer."""
    return 2 * 2 * config.kv_dim * config.num_mtp_layers


def round_bytes(
    config: ModelConfig,
    formats: Formats,
    context_tokens: int,
    *,
    rows: int = 1,
    num_drafted: int = 0,
    kv: KvFormat = "bf16",
) -> dict[str, int]:
    """Bytes that a decode round's kernels must move over weights as they are stored.

    Args:
        config: the model's numbers.
        formats: storage format of each part.
        context_tokens: positions held before the round.
        rows: verified positions, 1 without drafting.
        num_drafted: tokens that the MTP head proposed.
        kv: format of keys and values.
    """
    weights = weight_bytes(config, formats)
    return moved_bytes(config, weights, context_tokens, rows=rows, num_drafted=num_drafted, kv=kv)


def moved_bytes(
    config: ModelConfig,
    weights: Mapping[str, int],
    context_tokens: int,
    *,
    rows: int = 1,
    num_drafted: int = 0,
    kv: KvFormat = "bf16",
) -> dict[str, int]:
    """Bytes that a decode round's kernels must move, by `engine.records.BYTE_PARTS`.

    Weights and head are read once whatever the rows; recurrent states and tails are read and
    written once; keys and values of the context are read and those of the rows written. Each
    drafted token reads the MTP layer, the head it is chosen with and the layer's keys and values.

    Args:
        config: the model's numbers.
        weights: bytes held by part, of `weight_bytes` or of a loaded model.
        context_tokens: positions held before the round.
        rows: verified positions, 1 without drafting.
        num_drafted: tokens that the MTP head proposed.
        kv: format of keys and values, the MTP layer's apart.
    """
    head = weights["head"] or weights["embedding"]  # tied, and in the embedding's own memory
    embedded = 2 * config.hidden_size  # one embedding row a token
    drafted = weights["mtp"] + weights.get("draft_head", head) + embedded
    drafted += mtp_kv_bytes_per_token(config) * context_tokens
    return {
        "weights": weights["weights"] + rows * embedded,
        "head": head,
        "state": 2 * (state_bytes(config) + tail_bytes(config)),
        "kv": kv_bytes_per_token(config, kv) * (context_tokens + rows),
        "drafter": num_drafted * drafted,
    }
