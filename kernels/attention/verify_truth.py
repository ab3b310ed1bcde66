"""Compute gated attention in fp64, and bound what the builds may differ from it by.

Written apart from kernel and reference: softmax by its definition over the row's own path.

Bound. With weights w_j (they sum to 1), output o = sum_j w_j v_j, each weight off by at most a
relative h_j, and normalised by the sum of the same weights:

    |o' - o| <= sum_j w_j h_j |v_j - o| / (1 - max h)

h_j of the kernel: one rounding to bf16, 2^-8, and the score's error e_j as exp(e_j) - 1. e_j: a
chain of 16 instructions over D, each off by at most 2^-21 of the sum of magnitudes whatever order
and alignment the unit uses; two fp32 roundings of the scaled score; ex2.approx, 2^-22. The sums of
values add steps * 2^-21 of sum_j w_j |v_j|, with one step for each 16 positions of a chunk (at most
128), two for each of its tiles and chunks. Then the sums of a chunk are rounded to fp16: 2^-11 of
themselves, or 2^-39 of the largest among the columns that share a power of two (partials.cuh),
which over all chunks is no more than that of sum_j w_j |v_j|, and of the largest of these.

h_j of the CPU reference: scores are rounded to bf16 twice, so e_j holds 2 * 2^-8 of the score, and
weights are rounded after they are normalised, so that part is not centred: |v_j| in the place of
|v_j - o|. Its sums run in any order: positions * 2^-24.

Where a score may be off by so much that h exceeds 1/2, the weights say nothing; the output is still
a mean of the values, so |o' - o| <= max_j |v_j - o|.

Codes of keys and values are taken as what they stand for: widening and scaling them is exact, so
the bound is that of BF16.
"""

import torch

from kernels.attention.kv_cases import stand_for
from kernels.attention.verify_tile import SIDE
from kernels.common.case import Tensors
from kernels.common.compare import BF16_ROUNDING

FP16_ROUNDING = 2.0**-11
"""Largest relative error of one rounding to fp16, above its smallest numbers."""

STEP = 2.0**-21
STEPS = 16
CHUNK_STEPS = 128 + 2 * 32 + 2 * 256


def truth_verify(inputs: Tensors, *, kernel: bool | None = None) -> Tensors:
    """Return fp64 `out` [T, H * D] and `out_slack`: the error of an element besides roundings.

    Args:
        inputs: of a case of `attention_verify`.
        kernel: bound the kernel, not the CPU reference; None goes by the device of the inputs.
    """
    kernel = inputs["q"].is_cuda if kernel is None else kernel
    rows, heads, width = inputs["q"].shape
    start = int(inputs["start"])
    device = inputs["q"].device
    out = torch.empty(rows, heads, width, dtype=torch.float64, device=device)
    slack = torch.empty_like(out)
    keys, values = (stand_for(inputs, name) for name in ("keys", "values"))
    for row in range(rows):
        own = inputs["paths"][row, : int(inputs["depths"][row]) + 1].long() + start
        slots = torch.cat((torch.arange(start, device=device), own))
        k, v = keys[:, slots], values[:, slots]
        for head in range(heads):
            group = head // (heads // k.shape[0])
            q = inputs["q"][row, head].double()
            out[row, head], slack[row, head] = _attend(q, k[group], v[group], kernel=kernel)
    gate = torch.sigmoid(inputs["gate"].double())
    return {
        "out": (out * gate).flatten(1),
        "out_slack": (slack * gate * (1 + 4 * BF16_ROUNDING)).flatten(1),
    }


def truth_compact(inputs: Tensors) -> Tensors:
    """Return the stores with the accepted rows' slots in order, in fp64."""
    start, found = int(inputs["start"]), dict[str, torch.Tensor]()
    for name in ("keys", "values"):
        store = inputs[name].double()
        moved = store.clone()
        for to, row in enumerate(inputs["rows"][: int(inputs["num"])].tolist()):
            moved[:, :, start + to] = store[:, :, start + row]
        found[f"{name}_out"] = moved
    return found


def _attend(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, kernel: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attend from one query [D] to [S, D]; return the output and its slack, both [D]."""
    scale = q.shape[0] ** -0.5
    scores = (k @ q) * scale
    magnitudes = (k.abs() @ q.abs()) * scale
    weights = torch.softmax(scores, 0)
    out = weights @ v
    spread, distances = weights @ v.abs(), (v - out).abs()
    hull = distances.amax(0)
    if kernel:
        sums = CHUNK_STEPS * STEP * (spread + out.abs() + hull)
        wrong = torch.expm1(
            STEPS * STEP * magnitudes + 2.0**-22 * (scores.abs() + scores.abs().max() + 1)
        )
        wrong = wrong + BF16_ROUNDING * (1 + wrong)
    else:
        sums = BF16_ROUNDING * (spread + hull) + k.shape[0] * 2.0**-23 * (spread + hull)
        wrong = torch.expm1(2.02 * BF16_ROUNDING * scores.abs() + 2.0**-15 * magnitudes)
    if wrong.max() > 0.5:
        return out, hull + sums + (_kept(out.abs() + hull) if kernel else 0.0)
    if kernel:
        sums = sums + _kept(spread * (1 + wrong.max()) / (1 - wrong.max()))
    return out, torch.minimum((weights * wrong) @ distances / (1 - wrong.max()), hull) + sums


def _kept(spread: torch.Tensor) -> torch.Tensor:
    """Bound what keeping sums in fp16 changes, by the mean magnitude of the values [D]."""
    largest = spread.unflatten(0, (-1, SIDE)).amax(1).repeat_interleave(SIDE)
    return FP16_ROUNDING * spread + 2.0**-39 * largest
