"""Offer the delta rule for many tokens: check arguments, choose the build, launch.

CUDA tensors go to the Triton kernels, CPU tensors to the torch reference; in a process whose
kernels were built for Triton's interpreter CPU tensors go to the kernels too.
"""

import torch

from kernels.common import interpreter
from kernels.common.expect import Axes
from kernels.delta.prefill_tile import WIDTH, PrefillTile, default
from kernels.delta.reference import CHUNK, delta_chunk_reference

SLAB_CHUNKS = 64
"""Chunks kept at once: 33 KiB a value head and 32 KiB a key head each, 136 MB in a 27B's layer."""


def delta_prefill(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    state: torch.Tensor,
    *,
    tile: PrefillTile | None = None,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Advance the state of every head by any number of tokens, 64 at a time.

    Args:
        q: bf16 [T, G, D], raw: scaled to length one here. D = 128; any row and head stride.
        k: bf16 [T, G, D], raw. |q|, |k| <= 2^57 in every element, where squares still sum.
        v: bf16 [T, H, D]; value head h reads key head h // (H / G).
        g: fp32 [T, H], log decay, at most zero.
        beta: bf16 [T, H], 0 to 1.
        state: fp32 [H, D, E], E = D, the last two axes contiguous: advanced in place.
        tile: launch choice; None for the default of the GPU. One GPU keeps one choice: its bits
            are those of the tile.
        out: bf16 [T, H, D] to write into. None allocates.

    Returns:
        bf16 [T, H, D]; `out` where it was given.

    Raises:
        TypeError: a dtype is not one of those above.
        ValueError: shapes, strides or devices disagree, a width is not 128, or H is no multiple
            of G.

    Numerics:
        Products run on tensor cores and add in fp32. Raw keys and queries enter as the bf16
        numbers they are and their lengths are divided out of the results; the other operand (the
        state, the chunk's writes) is split into two bf16 numbers, which are within 2^-18 of it. The
        chunk's triangular system is solved by forward substitution in fp32, in diagonal blocks of
        16 tokens, then between blocks by products of three bf16 terms. The running sum of g is
        serial. One rounding of the output. A call cut at a multiple of 64 tokens gives the bits
        of the whole call; a token's bits do not depend on the tokens after its chunk.

    Side effects:
        Two launches on the current stream for every 4,096 tokens, and scratch for as many (136 MB
        in a layer of the 27B, less for shorter calls); safe in graph capture when `out` is given.

    Source:
        Yang, Kautz, Hatamizadeh, "Gated Delta Networks", 2024, section 3.3.
    """
    axes = Axes("delta_prefill")
    axes.tensor("q", q, ("T", "G", "D"), (torch.bfloat16,), "pass raw queries as bf16 heads")
    axes.tensor("k", k, ("T", "G", "D"), (torch.bfloat16,), "pass raw keys as bf16 heads")
    axes.tensor("v", v, ("T", "H", "E"), (torch.bfloat16,), "pass values as bf16 heads")
    axes.tensor("g", g, ("T", "H"), (torch.float32,), "pass the log decay of every value head")
    axes.tensor("beta", beta, ("T", "H"), (torch.bfloat16,), "pass the sigmoid as bf16")
    axes.tensor("state", state, ("H", "D", "E"), (torch.float32,), "pass one layer's state")
    out = torch.empty(v.shape, dtype=v.dtype, device=v.device) if out is None else out
    axes.tensor("out", out, ("T", "H", "E"), (torch.bfloat16,), "allocate it like v")
    axes.same_device(q=q, k=k, v=v, g=g, beta=beta, state=state, out=out)
    if axes["H"] % axes["G"]:
        raise ValueError(
            f"delta_prefill: H = {axes['H']} value heads cannot share G = {axes['G']} key heads "
            "evenly; pass as many value heads for every key head"
        )
    if axes["T"] == 0:
        return out
    if not interpreter.on_kernels(v):
        return out.copy_(delta_chunk_reference(q, k, v, g, beta, state))
    _check_widths(axes["D"], axes["E"], state)
    tile = default(v.device) if tile is None else tile
    step = SLAB_CHUNKS * CHUNK
    for first in range(0, axes["T"], step):
        rows = slice(first, first + step)
        _launch(q[rows], k[rows], v[rows], g[rows], beta[rows], state, out[rows], tile)
    return out


def _check_widths(D: int, E: int, state: torch.Tensor) -> None:
    if (D, E) != (WIDTH, WIDTH):
        raise ValueError(
            f"delta_prefill: keys and values must be {WIDTH} wide on a GPU, got D = {D}, E = {E}; "
            "call delta_chunk_reference for other widths"
        )
    if state.stride()[1:] != (WIDTH, 1):
        raise ValueError(
            f"delta_prefill: state [H, D, E] must be contiguous within a head, got strides "
            f"{list(state.stride())}; pass a layer of a contiguous state"
        )


def _launch(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    state: torch.Tensor,
    out: torch.Tensor,
    tile: PrefillTile,
) -> None:
    """Run both kernels over one slab of tokens."""
    from kernels.delta.prefill_kernel import delta_chunk_kernel, delta_scan_kernel

    num_rows, heads = v.shape[:2]
    chunks, per_key = -(-num_rows // CHUNK), heads // q.shape[1]
    pairs = k.new_empty(k.shape[1], chunks, 2, CHUNK, WIDTH)
    matrices = v.new_empty(heads, chunks, 2, 2, CHUNK, CHUNK)
    factors = g.new_empty(heads, chunks, 3, CHUNK)
    delta_chunk_kernel[(heads, chunks)](
        q, k, g, beta, pairs, matrices, factors, num_rows, chunks,
        q.stride(0), q.stride(1), k.stride(0), k.stride(1), g.stride(0), beta.stride(0),
        WIDTH**-0.5, **tile.chunk_constants(per_key), **tile.chunk_options(),
    )  # fmt: skip
    delta_scan_kernel[(WIDTH // tile.values, heads)](
        v, pairs, matrices, factors, state, out, num_rows, chunks,
        v.stride(0), v.stride(1), state.stride(0), out.stride(0), out.stride(1),
        **tile.scan_constants(per_key), **tile.scan_options(),
    )  # fmt: skip
