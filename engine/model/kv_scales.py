"""Find the scales of keys and values that are kept in eight bits, one a layer and KV head.

They come with the checkpoint where it brings one for the keys and one for the values of every
attention layer; all heads of a layer then share it, rounded up to a power of two. Otherwise they
are calibrated when the model is loaded: a few hundred tokens of the text that ships are read with
BF16 keys and values, and a scale is the power of two that leaves `HEADROOM` above the largest.
Nothing is kept on disk: the same weights on the same machine give the same scales, and a digest of
them stands in the name of the arithmetic, so that an exact resume sees it where they differ.
"""

import hashlib
import math
from collections.abc import Iterable, Sequence

import torch

from engine.errors import CheckpointError
from engine.model.checkpoint import Checkpoint
from engine.model.config import ModelConfig
from engine.model.decoder import Model
from engine.model.plain_file import open_plain
from engine.model.safetensors_header import StoredTensor
from kernels.attention.kv_codes import KvScales, power_of_two_from
from kernels.common.e4m3 import E4M3_MAX

CALIBRATION_TOKENS = 512
SEQUENCE_TOKENS = 256
"""Tokens that calibration reads, and of each sequence that begins with an empty state."""

HEADROOM = 2.0
"""A number twice as large as any that calibration saw is not cut yet; a step of the scale, which is
one of the exponent, loses nothing but the smallest numbers: 2^-14 of the largest are still seen."""

DTYPES = {"BF16": torch.bfloat16, "F16": torch.float16, "F32": torch.float32}


def stored_scales(checkpoint: Checkpoint) -> KvScales | None:
    """Read the scales that a checkpoint brings; None unless every attention layer has both.

    Raises:
        CheckpointError: one is not a positive finite number, or its file does not read.
    """
    config, found = checkpoint.config, checkpoint.kv_scales
    layers = [index for index, kind in enumerate(config.layer_kinds) if kind == "full_attention"]
    if any((layer, kind) not in found for layer in layers for kind in ("k", "v")):
        return None
    keys, values = (
        _for_all_heads([_read(found[layer, kind]) for layer in layers], config)
        for kind in ("k", "v")
    )
    return KvScales(keys, values)


@torch.inference_mode()
def calibrate(model: Model, sequences: Iterable[Sequence[int]]) -> KvScales:
    """Find scales by reading token sequences, each from an empty state.

    Args:
        model: its states keep BF16 still.
        sequences: of tokens; those of an empty one are left out.
    """
    assert model.kv_scales is None
    shape = (2, model.config.num_attention_layers, model.config.num_kv_heads)
    largest = torch.zeros(shape, device=model.device)
    for ids in sequences:
        state = model.new_state(max(len(ids), 1))
        model.prefill(ids, state)
        for kind, store in enumerate((state.kv.keys, state.kv.values)):
            for layer, held in enumerate(store[:, :, : len(ids)]):
                if held.shape[1]:
                    seen = held.float().abs().amax((1, 2))
                    largest[kind, layer] = torch.maximum(largest[kind, layer], seen)
    keys, values = power_of_two_from(largest * (HEADROOM / E4M3_MAX))
    return KvScales(keys, values)


def kv_arithmetic(scales: KvScales | None) -> str:
    """Name what scales decide of the bits of logits; empty for BF16."""
    if scales is None:
        return ""
    exponents = torch.stack((scales.keys, scales.values)).log2().flatten().cpu()
    digest = hashlib.sha256(repr([int(one) for one in exponents]).encode()).hexdigest()
    return f"kv-e4m3-{digest[:8]}"


def _for_all_heads(by_layer: list[float], config: ModelConfig) -> torch.Tensor:
    scales = power_of_two_from(torch.tensor(by_layer))
    return scales[:, None].repeat(1, config.num_kv_heads)


def _read(stored: StoredTensor) -> float:
    """Read one number."""
    try:
        with open_plain(stored.path) as file:
            file.seek(stored.offset)
            raw = bytearray(file.read(stored.num_bytes))
    except OSError as problem:
        raise CheckpointError(
            f"{stored.path} does not read: {problem.strerror}.", "Download the checkpoint again."
        ) from None
    found = torch.frombuffer(raw, dtype=DTYPES[stored.dtype]) if raw else torch.tensor([math.nan])
    value = float(found[0])
    if not 0 < value < math.inf:
        raise CheckpointError(
            f"{stored.path}: the scale '{stored.name[:200]}' of keys or values is {value:g}, "
            "expected a number above 0.",
            "Set model.kv to bf16, which does without it, or download the checkpoint again.",
        )
    return value
