"""Offer the delta rule for many tokens: check arguments, choose the build, launch.

CUDA tensors go to prefill_chunk.cu and then to prefill_walk_wgmma.cu where a chip has wgmma, to
prefill_walk.cu elsewhere; CPU tensors go to the torch reference.
"""

import torch

from kernels.common.expect import Axes
from kernels.delta.prefill_tile import WIDTH
from kernels.delta.reference import CHUNK, delta_chunk_reference

SLAB_CHUNKS = 64
"""Chunks kept at once: 20.5 KiB a value head each, 65 MB in a layer of the 27B."""

COPY_BYTES = 16
"""Bytes of one copy into shared memory."""


def delta_prefill(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    state: torch.Tensor,
    *,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Advance the state of every head by any number of tokens, 64 at a time.

    Args:
        q: bf16 [T, G, D], raw: scaled to length one here. D = 128. Its address and the strides of
            its rows and heads are multiples of 16 bytes, as are those of k, v and out.
        k: bf16 [T, G, D], raw. |q|, |k| <= 2^57 in every element, where squares still sum.
        v: bf16 [T, H, D]; value head h reads key head h // (H / G).
        g: fp32 [T, H], log decay, at most zero.
        beta: bf16 [T, H], 0 to 1.
        state: fp32 [H, D, E], E = D, the last two axes contiguous: advanced in place.
        out: bf16 [T, H, D] to write into. None allocates.

    Returns:
        bf16 [T, H, D]; `out` where it was given.

    Raises:
        TypeError: a dtype is not one of those above.
        ValueError: shapes, strides or devices disagree, a width is not 128, rows are no whole 16
            bytes apart, or H is no multiple of G.

    Numerics:
        Products run on tensor cores and add in fp32. Raw keys and queries enter as the bf16
        numbers they are and their lengths are divided out of the results; the other operand (the
        state, the chunk's writes) is split into two bf16 numbers, which are within 2^-18 of it. The
        chunk's triangular system is solved by forward substitution in fp32, in diagonal blocks of
        16 tokens, then between blocks by products of three bf16 terms. Running sums of g are a scan
        of pairs. One rounding of the output. A call cut at a multiple of 64 tokens gives the bits
        of the whole call; a token's bits do not depend on the tokens after its chunk.

    Side effects:
        Two launches on the current stream for every 4,096 tokens, and scratch for as many (65 MB
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
    if not v.is_cuda:
        return out.copy_(delta_chunk_reference(q, k, v, g, beta, state))
    _check_layout(q, k, v, state, out)
    from kernels.delta.prefill_launch import launch_prefill

    step = SLAB_CHUNKS * CHUNK
    for first in range(0, axes["T"], step):
        rows = slice(first, first + step)
        launch_prefill(q[rows], k[rows], v[rows], g[rows], beta[rows], state, out[rows])
    return out


def _check_layout(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, state: torch.Tensor, out: torch.Tensor
) -> None:
    """Refuse what the kernels cannot read: other widths, rows that are no whole 16 bytes."""
    D, E = k.shape[2], v.shape[2]
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
    for name, rows in (("q", q), ("k", k), ("v", v), ("out", out)):
        if rows.data_ptr() % COPY_BYTES or any(2 * n % COPY_BYTES for n in rows.stride()[:2]):
            raise ValueError(
                f"delta_prefill: rows of {name} are copied {COPY_BYTES} bytes at a time, got "
                f"strides {list(rows.stride())} and an address of {rows.data_ptr() % COPY_BYTES} "
                f"bytes beyond a multiple of {COPY_BYTES}; pass parts of rows that begin there"
            )
