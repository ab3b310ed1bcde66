"""A DFlash2 drafter of random weights, so that everything runs without a download."""

from dataclasses import replace

import torch

from engine.dflash.attach import put_beside
from engine.dflash.checkpoint import dflash_tensors
from engine.dflash.config import DflashConfig
from engine.dflash.weights import assemble, packed_tensors
from engine.draft.dflash import DflashSource
from engine.model.config import ModelConfig
from engine.model.decoder import Model
from engine.model.groups import DRAFTER_PREFIX
from engine.model.matrix import Matrix
from engine.model.packing import Packer
from engine.model.tensors import TensorSpec

RELEASED = DflashConfig(
    hidden_size=5120, intermediate_size=17408, vocab_size=248_320, num_layers=5, num_heads=32,
    num_kv_heads=8, head_dim=128, rope_theta=1e7, rms_norm_eps=1e-6, window=2048, block_size=8,
    mask_id=248_070, target_layers=(5, 19, 33, 47, 61), conv_taps=2, conv_group=16,
    selector_rank=256, top_k=16,
)  # fmt: skip
"""The drafter of Qwen3.8-27B."""


def drafter_of(target: ModelConfig) -> DflashConfig:
    """The released drafter, as wide and as deep as a target asks for."""
    last = target.num_layers - 1
    return replace(
        RELEASED,
        hidden_size=target.hidden_size,
        intermediate_size=target.intermediate_size,
        vocab_size=target.vocab_size,
        mask_id=min(RELEASED.mask_id, target.vocab_size - 1),
        target_layers=tuple(sorted({min(one, last) for one in RELEASED.target_layers})),
    )


def random_dflash(model: Model, packer: Packer | None, *, seed: int = 0) -> DflashSource:
    """Draw a drafter in BF16, directly on the model's device, and put it beside the model.

    Args:
        model: that it drafts for; it is counted among the model's bytes.
        packer: a fresh one, where the model runs by kernels.
        seed: of the draws.
    """
    generator = torch.Generator(device=model.device)
    generator.manual_seed(seed)
    config = drafter_of(model.config)
    tensors: dict[str, Matrix] = {}
    for name, spec in dflash_tensors(config).items():
        drawn = _drawn(name, spec, generator)
        if packer is not None and spec.matrix:
            packer.add(DRAFTER_PREFIX + name, drawn)
        else:
            tensors[name] = drawn
    if packer is not None:
        tensors |= packed_tensors(packer)
    return put_beside(model, config, assemble(config, tensors))


def _drawn(name: str, spec: TensorSpec, generator: torch.Generator) -> torch.Tensor:
    """Unit outputs for unit inputs; norms and convolutions that leave rows much as they are."""
    out = torch.empty(spec.shape, dtype=torch.bfloat16, device=generator.device)
    if name.endswith("norm.weight"):
        return out.normal_(1.0, 0.1, generator=generator)
    if name.endswith("base_kernel"):
        return out.normal_(0.0, 0.5, generator=generator)
    return out.normal_(0.0, spec.shape[-1] ** -0.5, generator=generator)
