"""Repeat the walk's kernel in torch, operation for operation, to predict its bits on a CPU.

A lane of the kernel owns four keys of every 32: key 32 i + 4 g + j belongs to lane g. It adds the
products of its even and of its odd keys in two chains of fused multiply-adds, i outside j, then
both; eight lanes are added as a binary tree of neighbours.
"""

import torch

from kernels.common import exact_torch
from kernels.common.case import Tensors
from kernels.delta.gate import gate_reference
from kernels.delta.problems import gate_of
from kernels.delta.tile import KEY_STRIDE

LANES = 8
"""Lanes that share the keys of a column."""


def fma(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    """Multiply and add fp32 with one rounding, as IEEE says; CPU tensors that broadcast.

    The product of two fp32 is exact in fp64. Their sum with the third is rounded to odd there: of
    the two fp64 around an inexact sum, the one whose last bit is set. Rounding that to fp32 gives
    what rounding the exact sum does, because fp64 has more than two bits to spare.

    Source:
        Boldo, Melquiond, "Emulation of a FMA and correctly rounded sums", 2008, theorem 3.
    """
    product, addend = torch.broadcast_tensors(a.double() * b.double(), c.double())
    total = product + addend
    of_addend = total - product
    error = (product - (total - of_addend)) + (addend - of_addend)
    bits = total.contiguous().view(torch.int64)
    away = (error > 0) == (total > 0)
    to_odd = torch.where(away, bits + 1, bits - 1)
    even_and_inexact = (bits & 1 == 0) & (error != 0) & error.isfinite()
    return torch.where(even_and_inexact, to_odd, bits).view(torch.float64).float()


def model_walk(inputs: Tensors) -> Tensors:
    """Predict what `delta_walk` writes: out, state and record_u of a case's inputs."""
    state = _folded(inputs, inputs["state"])
    half, walked = int(inputs["parity"]), state
    record_u, kept = inputs["record_u"].clone(), dict[int, torch.Tensor]()
    outs: list[torch.Tensor] = []
    for row in range(len(inputs["q"])):
        if (slot := int(inputs["restores"][row])) >= 0:
            walked = kept[slot]
        k = _by_value_head(inputs["record_k"][half, row], state)
        q = _by_value_head(inputs["q"][row], state)
        decay = inputs["record_decay"][half, row][:, None]
        seen, asked = dot(walked, k[:, :, None]), dot(walked, q[:, :, None])
        u = fma(-decay, seen, inputs["v"][row].float()) * inputs["beta"][row][:, None]
        met = dot(q[:, :, None], k[:, :, None])
        outs.append(fma(met, u, decay * asked).bfloat16())
        walked = _advanced(walked, decay, k, u)
        record_u[half, row] = u
        if (slot := int(inputs["saves"][row])) >= 0:
            kept[slot] = walked
    out, gate = torch.stack(outs), gate_of(inputs)
    if gate is not None:
        out = gate_reference(out, gate, mean_square, exact_torch.silu)
    return {"out": out, "state_out": state, "record_u_out": record_u}


def model_fold(inputs: Tensors) -> Tensors:
    """Predict what `delta_fold` writes: the states of all layers."""
    layers = [
        _folded({**inputs, **{name: inputs[name][layer] for name in _RECORD}}, state)
        for layer, state in enumerate(inputs["state"])
    ]
    return {"state_out": torch.stack(layers)}


_RECORD = ("record_k", "record_u", "record_decay")


def mean_square(x: torch.Tensor) -> torch.Tensor:
    """Average squares in the kernel's order: fp32 [..., E] -> [..., 1]."""
    levels = (x.shape[-1] - 1).bit_length()
    return exact_torch.sum_rows(x * x, folds=0, pairs=levels) / x.shape[-1]


def dot(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Add products over D in the kernel's order: fp32 [H, D, E] and [H, D, 1 or E] -> [H, E]."""
    heads, keys = x.shape[:2]
    shape = (heads, keys // KEY_STRIDE, LANES, 4)
    x, y = x.reshape(*shape, -1), y.reshape(*shape, -1)
    chains: list[torch.Tensor] = []
    for first in range(2):
        total: torch.Tensor | None = None
        for group in range(shape[1]):
            for place in (first, first + 2):
                one, other = x[:, group, :, place], y[:, group, :, place]
                total = one * other if total is None else fma(one, other, total)
        assert total is not None
        chains.append(total)
    lanes = (chains[0] + chains[1]).transpose(1, 2)  # [H, E, 8]
    return exact_torch.sum_rows(lanes, folds=0, pairs=3)[..., 0]


def _folded(inputs: Tensors, state: torch.Tensor) -> torch.Tensor:
    half = 1 - int(inputs["parity"])
    for row in inputs["pending_rows"][: int(inputs["num_pending"])].tolist():
        k = _by_value_head(inputs["record_k"][half, row], state)
        decay = inputs["record_decay"][half, row][:, None]
        state = _advanced(state, decay, k, inputs["record_u"][half, row])
    return state.clone()


def _advanced(
    state: torch.Tensor, decay: torch.Tensor, k: torch.Tensor, u: torch.Tensor
) -> torch.Tensor:
    return fma(k[:, :, None], u[:, None, :], decay[:, :, None] * state)


def _by_value_head(keys: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
    """Give each value head its key: [G, D] -> [H, D]."""
    return keys.repeat_interleave(state.shape[0] // keys.shape[0], 0)
