"""What a DFlash2 drafter adds to the memory of the model that it drafts for, in bytes."""

from engine.dflash.block import window_classes
from engine.dflash.checkpoint import DflashCheckpoint
from engine.dflash.config import DflashConfig
from engine.dflash.weights import holds_nvfp4
from engine.draft.dflash import MAX_WAITING_ROWS
from engine.model.chunk import CHUNK_TOKENS_ON_KERNELS
from engine.model.decoder import PREFILL_CHUNK_TOKENS
from engine.model.footprint import packed_bytes
from engine.model.memory import DrafterBytes
from engine.model.rope import BLOCK_TOKENS
from engine.profile import WeightFormat
from kernels.common.logit_rows import num_chunks, num_groups
from kernels.common.round import MAX_ROWS


def dflash_bytes(
    checkpoint: DflashCheckpoint | None, max_tokens: int, *, packed: bool, stored: WeightFormat
) -> DrafterBytes | None:
    """Count what loading and serving a drafter will occupy; allocates nothing.

    Args:
        checkpoint: what is loaded; without one there is nothing to count.
        max_tokens: longest conversation.
        packed: matrices are packed for the kernels.
        stored: as `load_dflash` takes it.
    """
    if checkpoint is None:
        return None
    config = checkpoint.config
    held = 0
    largest = 0
    for name, one in checkpoint.weights.items():
        spec = one.spec
        largest = max(largest, spec.num_elements if spec.matrix else 0)
        if packed and spec.matrix:
            rounds = holds_nvfp4(spec.part, spec.shape, stored)
            held += packed_bytes(spec, "nvfp4" if rounds else "bf16")
        else:
            held += (4 if name.endswith("norm.weight") else 2) * spec.num_elements
    chunk_tokens = CHUNK_TOKENS_ON_KERNELS if packed else PREFILL_CHUNK_TOKENS
    row = 2 * config.context_width
    return DrafterBytes(
        held=held,
        kept={
            "context": config.kv_bytes_per_token * (max_tokens + config.block_size),
            "positions": _rope_bytes(config, max_tokens),
            "dflash2": chunk_tokens * row + _fixed_bytes(config),
        },
        passing={
            "waiting rows": 2 * (MAX_WAITING_ROWS + chunk_tokens) * row,
            "blocks": _block_bytes(config),
        },
        # what is packed or rounded stands beside its source, and a group beside its members
        workspace=3 * 2 * largest if packed else 0,
    )


def _rope_bytes(config: DflashConfig, max_tokens: int) -> int:
    """Cosines and sines in BF16, and the fp32 frequencies."""
    num_positions = max(max_tokens + config.block_size, BLOCK_TOKENS)
    return 4 * config.rotary_dim * num_positions + 2 * config.rotary_dim


def _fixed_bytes(config: DflashConfig) -> int:
    """What a block reads and writes at fixed addresses."""
    places, top, block = config.num_proposals, config.top_k, config.block_size
    rows = 2 * MAX_ROWS * config.context_width
    numbers = 2 * 4 * (block + 1)
    scratch = places * (8 * num_groups(config.vocab_size) + 4 * num_chunks(config.vocab_size))
    candidates = 4 * places * (2 * top + (top + 1) * top)
    windows = sum((8 + block) * (near + block) for near in window_classes(config))
    return rows + numbers + scratch + candidates + windows


def _block_bytes(config: DflashConfig) -> int:
    """At most what a block takes at one moment: its logits, a window of keys, or its rows."""
    logits = 2 * 4 * config.num_proposals * config.vocab_size
    near = window_classes(config)[-1] + config.block_size
    keys = 2 * 2 * config.num_kv_heads * config.head_dim * near
    scores = (2 + 4 + 4 + 2) * config.num_heads * config.block_size * near
    kernels = 4 * 2 * config.conv_taps * config.block_size * config.hidden_size
    fed = 2 * 3 * config.block_size * config.intermediate_size
    books = 3 * 4 * config.num_proposals * config.top_k * config.selector_rank
    return logits + max(keys + scores, kernels + fed, books)
