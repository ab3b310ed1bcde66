"""State what the convolution's kernels write in plain torch with the model's rounding points.

With `TORCH` the arithmetic is torch's own, bit-equal on a CPU to transformers 5.24. With `KERNEL`,
which exchanges the order of one sum and three functions, the same statements predict the kernels'
bits.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.nn import functional

from kernels.common import exact_torch
from kernels.conv.arguments import PRODUCT_LANES

LENGTH_EPS = 1e-6
"""Added to the sum of squares, inside the root, when q and k are scaled to length one."""

Function = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class Arithmetic:
    """What torch and the kernels may do differently, each fp32 -> fp32.

    Attributes:
        sum_rows: [..., D] -> [..., 1].
        silu: element by element, like the three below.
        exp: the decay of a log decay.
        softplus: linear above 20.
        sigmoid: rounded to bf16 by its caller.
        product: bf16 rows [T, K] by a bf16 weight [N, K], -> bf16 [T, N].
    """

    sum_rows: Function
    silu: Function
    exp: Function
    softplus: Function
    sigmoid: Function
    product: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def softplus_of_kernel(x: torch.Tensor) -> torch.Tensor:
    """Compute log(1 + e^x) with the bits of `gates_kernel.softplus`."""
    z = exact_torch.exp(-x.abs())
    s = z / (2.0 + z)
    square = s * s
    p = square * (1 / 15) + 1 / 13
    for odd in (11, 9, 7, 5, 3, 1):
        p = p * square + 1 / odd
    return torch.where(x > 0.0, x, 0.0) + (2.0 * s) * p


def _sum_of_kernel(x: torch.Tensor) -> torch.Tensor:
    return exact_torch.sum_rows(x, 0, (x.shape[-1] - 1).bit_length())


def _product_of_kernel(rows: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Multiply with the bits of `gates_kernel.store_product_gates`."""
    total = rows.new_zeros((len(rows), len(weight), PRODUCT_LANES), dtype=torch.float32)
    pad = -rows.shape[1] % PRODUCT_LANES
    x, w = (functional.pad(one.float(), (0, pad)) for one in (rows, weight))
    for lanes in range(0, x.shape[1], PRODUCT_LANES):
        part = slice(lanes, lanes + PRODUCT_LANES)
        total = total + x[:, None, part] * w[None, :, part]
    sums = exact_torch.sum_rows(total, 0, PRODUCT_LANES.bit_length() - 1)
    return sums[..., 0].to(rows.dtype)


TORCH = Arithmetic(
    sum_rows=lambda x: x.sum(-1, keepdim=True),
    silu=functional.silu,
    exp=torch.exp,
    softplus=functional.softplus,
    sigmoid=torch.sigmoid,
    product=functional.linear,
)
KERNEL = Arithmetic(
    sum_rows=_sum_of_kernel,
    silu=exact_torch.silu,
    exp=exact_torch.exp,
    softplus=softplus_of_kernel,
    sigmoid=lambda x: 1.0 / (1.0 + exact_torch.exp(-x)),
    product=_product_of_kernel,
)


def places_of(parents: torch.Tensor) -> torch.Tensor:
    """Name the rows of each row's window: int [T] -> int64 [T, 4], oldest first.

    A place from 0 on is a row of the call, one below 0 a row before it, -1 the newest.
    """
    rows = parents.tolist()
    windows: list[list[int]] = []
    for row in range(len(rows)):
        window = [row]
        while len(window) < 4:
            place = window[0]
            window.insert(0, rows[place] if place >= 0 else place - 1)
        windows.append(window)
    return torch.tensor(windows, dtype=torch.int64, device=parents.device).view(-1, 4)


def tail_behind_pending_reference(
    tail: torch.Tensor, raw: torch.Tensor, num_pending: int, pending_rows: torch.Tensor
) -> torch.Tensor:
    """Return the three rows before a round: bf16 [3, C].

    Args:
        tail: bf16 [3, C], the rows before the pending rows, oldest first.
        raw: bf16 [32, C], the rows of the last round.
        num_pending: how many of them were accepted.
        pending_rows: int32 [32], which, in order.
    """
    return torch.cat((tail, raw[pending_rows[:num_pending].long()]))[-3:]


def convolve_reference(
    x: torch.Tensor,
    weight: torch.Tensor,
    tail: torch.Tensor,
    places: torch.Tensor,
    arithmetic: Arithmetic = TORCH,
) -> torch.Tensor:
    """Convolve windows that are named row by row, then apply SiLU: bf16 [T, C].

    Args:
        x: bf16 [T, C].
        weight: bf16 [C, 4], the last tap for the row itself.
        tail: bf16 [3, C], oldest first.
        places: int64 [T, 4], as `places_of` gives them.
        arithmetic: torch's or the kernel's.

    Numerics:
        Products and sums rounded apart in fp32, from the oldest tap on; -> bf16; SiLU in fp32;
        -> bf16.
    """
    rows, taps = torch.cat((tail, x)).float(), weight.float()
    total = rows[3 + places[:, 0]] * taps[:, 0]
    for tap in range(1, 4):
        total = total + rows[3 + places[:, tap]] * taps[:, tap]
    return arithmetic.silu(total.to(x.dtype).float()).to(x.dtype)


def unit_length(x: torch.Tensor, arithmetic: Arithmetic = TORCH) -> torch.Tensor:
    """Scale rows to length one, by the sum of squares: fp32 [..., D] -> fp32 [..., D]."""
    return x * torch.rsqrt(arithmetic.sum_rows(x * x) + LENGTH_EPS)


def gates_product_reference(
    rows: torch.Tensor, weight: torch.Tensor, arithmetic: Arithmetic = TORCH
) -> torch.Tensor:
    """Multiply rows to a | b: bf16 [T, K] by bf16 [2 H, K] or wider -> bf16 [T, 2 H]."""
    return arithmetic.product(rows, weight[:, : rows.shape[1]])


def gates_reference(
    ab: torch.Tensor,
    decay_rate: torch.Tensor,
    dt_bias: torch.Tensor,
    arithmetic: Arithmetic = TORCH,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute the log decay g, fp32 [T, H], and the write share beta, bf16 [T, H].

    Args:
        ab: bf16 [T, 2 H], a and then b.
        decay_rate: fp32 [H], -exp(A_log).
        dt_bias: fp32 [H].
        arithmetic: torch's or the kernel's.
    """
    a, b = ab.chunk(2, dim=-1)
    g = decay_rate * arithmetic.softplus(a.float() + dt_bias)
    return g, arithmetic.sigmoid(b.float()).to(ab.dtype)
