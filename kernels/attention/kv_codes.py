"""State how keys and values are stored in eight bits: e4m3 codes times a power of two.

A scale decides which values saturate (beyond 448 of it) and which lose digits (below 2^-6 of it);
in between the relative error is 2^-4 whatever the scale is, so a power of two loses nothing. It
keeps every stored value exact in BF16: what reads a store of codes computes, to the bit, what it
would compute from a BF16 store of the values that the codes stand for.
"""

from dataclasses import dataclass
from functools import cache

import torch

from kernels.common.e4m3 import E4M3_MAX

E4M3 = torch.float8_e4m3fn
KV_DTYPES = (torch.bfloat16, E4M3)

MOST_EXPONENT = 64
"""Scales lie between 2^-64 and 2^64, so that codes times scales are normal numbers of BF16."""

COLUMN_ORDER = (0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15)
"""Columns of 16 as an instruction of the scores takes codes on a GPU; of BF16 they go from 0 to 15.
A tensor core that adds 16 products in any other way than all at once tells the two apart."""


@dataclass(frozen=True, eq=False)
class KvScales:
    """What codes are multiplied by: powers of two, fp32 [..., G], one for each KV head.

    Attributes:
        keys: of the keys, after norm and rotation.
        values: of the values.
    """

    keys: torch.Tensor
    values: torch.Tensor

    def layer(self, index: int) -> "KvScales":
        """Return those of one layer, fp32 [G] each."""
        return KvScales(self.keys[index], self.values[index])

    def to(self, device: torch.device) -> "KvScales":
        """Return them on a device."""
        return KvScales(self.keys.to(device), self.values.to(device))


def to_codes(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """Round to e4m3 codes.

    Args:
        x: bf16 of any shape.
        scale: fp32 that broadcasts to it, powers of two.

    Returns:
        e4m3 of x's shape.

    Numerics:
        x / scale is exact; one rounding to the nearest code, ties to even; beyond 448 the largest
        code of the sign. What is not finite becomes NaN, and so is seen by whatever attends to it.
    """
    scaled = x.float() / scale
    bounded = scaled.clamp(-E4M3_MAX, E4M3_MAX).masked_fill(~scaled.isfinite(), torch.nan)
    return bounded.to(E4M3)


def to_bf16(codes: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """Widen codes to the values that they stand for: bf16 of their shape, exact.

    Args:
        codes: e4m3 of any shape.
        scale: fp32 that broadcasts to them, powers of two.
    """
    bytes_of = codes.contiguous().view(torch.uint8).flatten().int()
    return _numbers(codes.device).index_select(0, bytes_of).view(codes.shape) * scale.bfloat16()


@cache
def _numbers(device: torch.device) -> torch.Tensor:
    """The number of each byte: torch's own conversion takes a CPU four times as long."""
    return torch.arange(256, dtype=torch.uint8).view(E4M3).bfloat16().to(device)


def widened(
    keys: torch.Tensor, values: torch.Tensor, scales: KvScales | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a layer's keys and values [G, S, D] as bf16: themselves, or what codes stand for."""
    if scales is None:
        return keys, values
    return (
        to_bf16(keys, scales.keys[:, None, None]),
        to_bf16(values, scales.values[:, None, None]),
    )


def power_of_two_from(x: torch.Tensor) -> torch.Tensor:
    """Return the smallest power of two that is not below x, within the range of scales.

    Args:
        x: fp32 of any shape, not negative; 1 stands for those that are zero or not finite.
    """
    usable = torch.where(x.isfinite() & (x > 0), x, torch.ones_like(x)).float()
    mantissa, exponent = torch.frexp(usable)
    exponent = torch.where(mantissa == 0.5, exponent - 1, exponent)
    exponent = exponent.clamp(-MOST_EXPONENT, MOST_EXPONENT)
    return torch.ldexp(torch.ones_like(usable), exponent)


def expect_scales(
    function: str, keys: torch.Tensor, values: torch.Tensor, scales: KvScales | None
) -> None:
    """Check that a store of codes comes with its scales, and a BF16 store without.

    Args:
        function: who asks.
        keys: bf16 or e4m3 [G, S, D] of one layer.
        values: likewise.
        scales: of the layer.

    Raises:
        ValueError: dtypes of keys, values and the presence of scales disagree, or the scales are
            not contiguous fp32 [G] on the keys' device.
    """
    is_coded = keys.dtype == E4M3
    if keys.dtype != values.dtype or is_coded != (scales is not None):
        raise ValueError(
            f"{function}: keys are {keys.dtype} and values {values.dtype} "
            f"{'without' if scales is None else 'with'} scales; expected both bf16 without, or "
            "both e4m3 with the scales of their layer"
        )
    if scales is None:
        return
    for name, scale in (("keys", scales.keys), ("values", scales.values)):
        good = (
            scale.dtype == torch.float32
            and scale.shape == keys.shape[:1]
            and scale.device == keys.device
            and scale.is_contiguous()
        )
        if not good:
            raise ValueError(
                f"{function}: scales of {name} must be contiguous fp32 [{keys.shape[0]}] on "
                f"{keys.device}, got {scale.dtype} {list(scale.shape)} on {scale.device}; pass "
                "KvScales.layer(index)"
            )
