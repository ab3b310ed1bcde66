"""Draw stores of codes for cases: values of a domain as e4m3, and the scales that they need."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial

import torch

from kernels.attention.kv_codes import E4M3, KvScales, power_of_two_from
from kernels.common.case import Tensors, TensorSpec
from kernels.common.compare import bits_of
from kernels.common.domain import Domain
from kernels.common.e4m3 import E4M3_MAX
from kernels.common.family import Law

HEADS_APART = 3
"""Scales of neighbouring heads differ, by powers of two up to 2^2."""

SAMPLE = 4096
NO_NUMBER = 0x7F
"""The byte of e4m3's NaN."""


def base_scale(values: Domain) -> torch.Tensor:
    """Return the power of two that brings a domain's values into the range of codes: fp32 []."""
    sample = values.draw((SAMPLE, 1), torch.Generator().manual_seed(1))
    return power_of_two_from(sample.abs().max() / (E4M3_MAX / 2))


def coded(values: Domain) -> Domain:
    """Make the domain of the codes that values have at their base scale; NaN stays."""

    def draw(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
        drawn = values.draw(shape, generator) / base_scale(values)
        return drawn.clamp(-E4M3_MAX, E4M3_MAX)

    return Domain(f"{values.name} e4m3", draw)


def scale_specs(values: Domain) -> tuple[TensorSpec, TensorSpec]:
    """Describe the scales of a store of codes: fp32 [G], values' the larger for later heads."""
    base = base_scale(values)

    def keys(shape: tuple[int, ...], _generator: torch.Generator) -> torch.Tensor:
        return base * 2.0 ** -(torch.arange(shape[0]) % HEADS_APART)

    def of_values(shape: tuple[int, ...], _generator: torch.Generator) -> torch.Tensor:
        return base * 2.0 ** (torch.arange(shape[0]) % HEADS_APART)

    fp32 = torch.float32
    return (
        TensorSpec("key_scales", ("G",), fp32, Domain("key scales", keys)),
        TensorSpec("value_scales", ("G",), fp32, Domain("value scales", of_values)),
    )


def scales_of(inputs: Tensors) -> KvScales | None:
    """Return the scales among a case's inputs; None for a BF16 store."""
    if "key_scales" not in inputs:
        return None
    return KvScales(inputs["key_scales"], inputs["value_scales"])


def without_numbers(like: torch.Tensor) -> torch.Tensor:
    """Allocate a store like another, full of NaN."""
    if like.dtype != E4M3:
        return torch.full_like(like, torch.nan)
    return torch.full_like(bits_of(like), NO_NUMBER).view(E4M3)


def slots_of(store: torch.Tensor, slots: torch.Tensor) -> torch.Tensor:
    """Take slots [n] of a store [G, S, D]: [G, n, D]."""
    return bits_of(store)[:, slots].view(store.dtype)


def stand_for(inputs: Mapping[str, torch.Tensor], name: str) -> torch.Tensor:
    """Return "keys" or "values" of a case as the fp64 numbers that they stand for: [G, S, D]."""
    store = inputs[name].double()
    scales = inputs.get(f"{name.removesuffix('s')}_scales")
    return store if scales is None else store * scales.double()[:, None, None]


def for_both(
    name: str, broken: Callable[..., str | None], *, cuda_only: bool = False
) -> Iterator[Law]:
    """State a law of a BF16 store, and of codes.

    Args:
        name: the law.
        broken: tries it on a device, by the argument `coded` on either store.
        cuda_only: of the law.
    """
    yield Law(name, partial(broken, coded=False), cuda_only=cuda_only)
    yield Law(f"{name}, e4m3", partial(broken, coded=True), cuda_only=cuda_only)
