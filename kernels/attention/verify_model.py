"""Follow the kernel's own order in torch: chunks by position, tiles, strands of the merge.

What a tensor core adds inside one instruction is its own, so the model's bits are not the kernel's.
It shows on a CPU that the order of the steps computes attention.
"""

import math
from itertools import pairwise

import torch

from kernels.attention.chunks import TILE, chunk_edges
from kernels.attention.combine_tile import STRANDS
from kernels.attention.kv_cases import stand_for
from kernels.attention.reference import gate_reference
from kernels.attention.verify_tile import SIDE
from kernels.common.case import Tensors

_Partial = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
"""Sums [H, D], tops [H] and weights [H] of a chunk."""


def model_verify(inputs: Tensors) -> Tensors:
    """Return what the kernel's steps give for a case of `attention_verify`: `out` [T, H * D]."""
    q, gate = inputs["q"], inputs["gate"]
    rows, heads, width = q.shape
    start = int(inputs["start"])
    out = torch.empty(rows, heads, width, dtype=q.dtype)
    for row in range(rows):
        own = inputs["paths"][row, : int(inputs["depths"][row]) + 1].long() + start
        slots = torch.cat((torch.arange(start), own))
        share = heads // inputs["keys"].shape[0]
        k, v = (
            stand_for(inputs, name)[:, slots].float().repeat_interleave(share, 0)
            for name in ("keys", "values")
        )
        edges = chunk_edges(len(slots))
        chunks = [
            _chunk(q[row].float(), k[:, low:high], v[:, low:high]) for low, high in pairwise(edges)
        ]
        out[row] = _merged(chunks).to(q.dtype)
    return {"out": gate_reference(out, gate).flatten(1)}


def _chunk(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> _Partial:
    """Attend from q [H, D] to a chunk of keys and values [H, S, D]."""
    factor = torch.tensor(q.shape[1] ** -0.5 * math.log2(math.e))
    top = torch.full((q.shape[0],), -math.inf)
    total, weight = torch.zeros_like(q), torch.zeros_like(top)
    for low in range(0, k.shape[1], TILE):
        scores = torch.einsum("hd,hsd->hs", q, k[:, low : low + TILE])
        now = torch.maximum(top, scores.amax(1) * factor)
        scale = torch.exp2(top - now)
        weights = torch.exp2(scores * factor - now[:, None]).bfloat16().float()
        total = total * scale[:, None] + torch.einsum("hs,hsd->hd", weights, v[:, low : low + TILE])
        weight = weight * scale + weights.sum(1)
        top = now
    return _kept(total), top, weight


def _kept(sums: torch.Tensor) -> torch.Tensor:
    """Round sums [H, D] to fp16, divided by a power of two that `SIDE` columns have in common."""
    sides = sums.unflatten(1, (-1, SIDE))
    largest = sides.abs().masked_fill(~sides.isfinite(), 0.0).amax(-1, keepdim=True)
    # frexp counts from 1/2: the largest comes to lie in [2^14, 2^15)
    power = largest.frexp().exponent.clamp(min=-111) - 15
    return ((sides * _two_to(-power)).half() * _two_to(power)).flatten(1)


def _two_to(exponents: torch.Tensor) -> torch.Tensor:
    """Return fp32 powers of two, of int32 exponents within those of normal numbers; exact."""
    return (exponents + 127 << 23).view(torch.float32)


def _strand(chunks: list[_Partial], strand: int) -> list[_Partial]:
    return chunks[strand::STRANDS]


def _merged(chunks: list[_Partial]) -> torch.Tensor:
    """Merge the chunks of a row in strands; return fp32 [H, D]."""
    top = torch.stack([one for _, one, _ in chunks]).amax(0)
    total, weight = torch.zeros_like(chunks[0][0]), torch.zeros_like(top)
    for strand in range(STRANDS):
        part, part_weight = torch.zeros_like(total), torch.zeros_like(weight)
        for sums, own_top, own_weight in _strand(chunks, strand):
            scale = torch.exp2(own_top - top)
            part = part + scale[:, None] * sums
            part_weight = part_weight + scale * own_weight
        total, weight = total + part, weight + part_weight
    return total / weight[:, None]
