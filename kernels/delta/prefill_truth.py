"""Compute the delta rule in fp64 from its definition, token by token, and how far it may stray.

Written apart from kernel and reference: no chunk, no triangular system; nothing is rounded.

The bound: every product of the chunked form keeps about 17 bits of its operands, so a result strays
by 2^-17 of the numbers that meet in it, which are columns of the state and values. Writes are
contractions (k of length one, beta from 0 to 1), so errors fade with the state and add up like
independent roundings. A column therefore strays by STRAY of the longest that it has been, faded
since; an output by as much times the length of its query, and by its rounding to bf16. A decay is
taken from a running sum of g over the chunk, so where the sum grows to c, SUMMED of c is added.
"""

import torch

from kernels.common.case import Tensors
from kernels.delta.reference import CHUNK, LENGTH_EPS

STRAY = 2.0**-14
"""Eight times 2^-17: a row of the chunk's system meets up to 64 rounded numbers, the square root of
which is 8."""

SUMMED = 2.0**-20
"""Sixteen fp32 roundings: the square root of 64 additions, in each of the two sums that differ."""


def truth_prefill(inputs: Tensors) -> Tensors:
    """Return out and state_out in fp64, each with its slack."""
    v, g, beta = (inputs[name].double() for name in ("v", "g", "beta"))
    num_rows, heads = v.shape[:2]
    q, k = (_unit_length(inputs[name].double(), heads) for name in ("q", "k"))
    q = q * q.shape[-1] ** -0.5
    state = inputs["state"].double()
    longest = state.norm(dim=1)
    steepest = torch.zeros_like(g[0])
    out, slack = torch.empty_like(v), torch.empty_like(v)
    for t in range(num_rows):
        fade, key = g[t].exp()[:, None], k[t]
        summed = g[t - t % CHUNK : t + 1].sum(0).abs()
        steepest = torch.maximum(steepest, summed)
        stray = (STRAY + SUMMED * steepest)[:, None]
        state = fade[:, :, None] * state
        missing = v[t] - (state * key[:, :, None]).sum(1)
        state = state + key[:, :, None] * (beta[t][:, None] * missing)[:, None, :]
        longest = torch.maximum(fade * longest, torch.maximum(state.norm(dim=1), v[t].abs()))
        out[t] = (state * q[t][:, :, None]).sum(1)
        slack[t] = stray * longest * q[t].norm(dim=1, keepdim=True)
    column = (STRAY + SUMMED * steepest)[:, None] * longest
    return {
        "out": out,
        "out_slack": slack,
        "state_out": state,
        "state_out_slack": column[:, None, :].expand_as(state),
    }


def _unit_length(x: torch.Tensor, heads: int) -> torch.Tensor:
    """Scale rows to length one and give each value head its own: [T, G, D] -> [T, H, D]."""
    length = (x.square().sum(-1, keepdim=True) + LENGTH_EPS).sqrt()
    return (x / length).repeat_interleave(heads // x.shape[1], 1)
