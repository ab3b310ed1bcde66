"""Compile, load and launch what prepares chunks, and their walk; `prefill.py` checks arguments."""

import ctypes
from functools import cache
from pathlib import Path

import torch

from kernels.common import gpu, nvrtc
from kernels.common.chips import Capability
from kernels.common.cuda_kernel import CudaKernel, Launch
from kernels.delta.prefill_tile import (
    CHUNK_SHARED_BYTES,
    CHUNK_WARPS,
    PREPARED_BYTES,
    WIDTH,
    PrefillTile,
    default,
)
from kernels.delta.reference import CHUNK, LENGTH_EPS

CHUNK_SOURCE = Path(__file__).with_name("prefill_chunk.cu")
WALK_SOURCE = Path(__file__).with_name("prefill_walk.cu")
WGMMA_WALK_SOURCE = Path(__file__).with_name("prefill_walk_wgmma.cu")


class PrefillChunk(ctypes.Structure):
    """`Chunk` of prefill_chunk.cu, field for field."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("q", "k", "g", "beta", "prepared")),
        *(
            (name, ctypes.c_longlong)
            for name in ("q_row", "q_head", "k_row", "k_head", "g_row", "beta_row")
        ),
        *((name, ctypes.c_int) for name in ("rows", "chunks", "heads_a_key")),
        *((name, ctypes.c_float) for name in ("eps", "scale")),
    ]


class PrefillWalk(ctypes.Structure):
    """`Walk` of prefill_walk.cuh, field for field."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("q", "k", "v", "prepared", "state", "out")),
        *(
            (f"{name}_{step}", ctypes.c_longlong)
            for name in ("q", "k", "v")
            for step in ("row", "head")
        ),
        *((name, ctypes.c_longlong) for name in ("state_head", "out_row", "out_head")),
        *((name, ctypes.c_int) for name in ("rows", "chunks", "heads_a_key")),
    ]


def launch_prefill(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    state: torch.Tensor,
    out: torch.Tensor,
    *,
    tile: PrefillTile | None = None,
) -> None:
    """Run both kernels over one slab of tokens; `delta_prefill` has checked the arguments.

    Args:
        q: as `delta_prefill` takes it, like the next six.
        k: raw keys.
        v: values.
        g: log decays.
        beta: weights of writes.
        state: advanced in place.
        out: written.
        tile: of the walk; None for that of the GPU.
    """
    num_rows, heads = v.shape[:2]
    chunks, key_heads = -(-num_rows // CHUNK), q.shape[1]
    prepared = torch.empty(heads, chunks, PREPARED_BYTES, dtype=torch.uint8, device=v.device)
    sizes = (num_rows, chunks, heads // key_heads)
    device = v.get_device()
    told = PrefillChunk(
        *(x.data_ptr() for x in (q, k, g, beta, prepared)),
        *q.stride()[:2], *k.stride()[:2], g.stride(0), beta.stride(0),
        *sizes, LENGTH_EPS, WIDTH**-0.5,
    )  # fmt: skip
    load_chunk(device).launch(chunk_shape(chunks * heads), told)
    told = PrefillWalk(
        *(x.data_ptr() for x in (q, k, v, prepared, state, out)),
        *q.stride()[:2], *k.stride()[:2], *v.stride()[:2], state.stride(0), *out.stride()[:2],
        *sizes,
    )  # fmt: skip
    tile = tile or tile_of(device)
    load_walk(tile, device).launch(walk_shape(heads, tile), told)


def chunk_cubin(capability: Capability) -> bytes:
    """Compile the kernel that prepares chunks; needs no GPU.

    Args:
        capability: compute capability, such as (12, 1).
    """
    return nvrtc.compile_file(CHUNK_SOURCE, capability, {"SHARED_BYTES": CHUNK_SHARED_BYTES})


def walk_cubin(tile: PrefillTile, capability: Capability) -> bytes:
    """Compile the walk over chunks, as `chunk_cubin` does what comes before it."""
    source = WGMMA_WALK_SOURCE if tile.wgmma else WALK_SOURCE
    return nvrtc.compile_file(source, capability, tile.macros())


@cache
def load_chunk(device: int) -> CudaKernel:
    """Compile and load the kernel that prepares chunks on the current device, once."""
    return CudaKernel(chunk_cubin(gpu.chip(device)), "delta_prefill_chunk")


@cache
def load_walk(tile: PrefillTile, device: int) -> CudaKernel:
    """Compile and load the walk over chunks on the current device, once."""
    return CudaKernel(walk_cubin(tile, gpu.chip(device)), "delta_prefill_walk")


@cache
def tile_of(device: int) -> PrefillTile:
    """Return the launch of the walk for a device."""
    return default(gpu.choices(device))


@cache
def chunk_shape(blocks: int) -> Launch:
    """Return the one object by which a kernel finds what the driver wants of a launch."""
    return Launch(blocks, 32 * CHUNK_WARPS, CHUNK_SHARED_BYTES)


@cache
def walk_shape(heads: int, tile: PrefillTile) -> Launch:
    """Return the one object of a launch of the walk, as `chunk_shape` does.

    It overlaps with the end of what prepares chunks where that was measured to gain.
    """
    blocks = heads * WIDTH // tile.values
    return Launch(blocks, tile.threads, tile.shared_bytes(), overlap=tile.wgmma)
