"""Compile, load and launch verify.cu or verify_codes.cu, and combine.cu; `verify.py` checks."""

import ctypes
import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch

from kernels.attention import combine_tile
from kernels.attention.chunks import num_chunks
from kernels.attention.kv_codes import KvScales
from kernels.attention.shares import share_table
from kernels.attention.store_maps import store_maps
from kernels.attention.verify_tile import (
    HEAD_DIM,
    SIDE,
    RowGroups,
    Sm,
    VerifyTile,
    default,
    row_groups,
    sm_of,
)
from kernels.common import gpu, nvrtc
from kernels.common.chips import Capability
from kernels.common.cuda_kernel import CudaKernel, Launch
from kernels.common.operands import Operands
from kernels.common.operands_arguments import NextOperands, next_operands


class VerifyArguments(ctypes.Structure):
    """`Problem` of verify_problem.cuh, field for field."""

    _fields_ = [
        ("q", ctypes.c_void_p),
        ("start", ctypes.c_void_p),
        ("depths", ctypes.c_void_p),
        ("paths", ctypes.c_void_p),
        ("key_scales", ctypes.c_void_p),
        ("value_scales", ctypes.c_void_p),
        ("sums", ctypes.c_void_p),
        ("powers", ctypes.c_void_p),
        ("tops", ctypes.c_void_p),
        ("weights", ctypes.c_void_p),
        ("shares", ctypes.c_void_p),
        ("q_stride", ctypes.c_int),
        ("rows", ctypes.c_int),
        ("heads", ctypes.c_int),
        ("groups", ctypes.c_int),
        ("group_rows", ctypes.c_int),
        ("row_groups", ctypes.c_int),
        ("bins", ctypes.c_int),
        ("chunks", ctypes.c_int),
        ("own_slots", ctypes.c_int),
        ("factor", ctypes.c_float),
    ]


class CombineArguments(ctypes.Structure):
    """`Problem` of combine.cu, field for field."""

    _fields_ = [
        ("sums", ctypes.c_void_p),
        ("powers", ctypes.c_void_p),
        ("tops", ctypes.c_void_p),
        ("weights", ctypes.c_void_p),
        ("gate", ctypes.c_void_p),
        ("out", ctypes.c_void_p),
        ("start", ctypes.c_void_p),
        ("depths", ctypes.c_void_p),
        ("gate_stride", ctypes.c_int),
        ("gate_head_stride", ctypes.c_int),
        ("out_stride", ctypes.c_int),
        ("rows", ctypes.c_int),
        ("heads", ctypes.c_int),
        ("chunks", ctypes.c_int),
        ("next", NextOperands),
    ]


def scratch_elements(rows: int, heads: int, max_context: int) -> int:
    """Return the fp32 elements that partial results of each chunk take.

    They are sums in fp16, two to an element, with their powers of two, tops and weights.

    Args:
        rows: T.
        heads: query heads.
        max_context: the context class.
    """
    return num_chunks(max_context) * rows * heads * (HEAD_DIM // 2 + HEAD_DIM // SIDE + 2)


def launch(
    q: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    gate: torch.Tensor,
    start: torch.Tensor,
    depths: torch.Tensor,
    paths: torch.Tensor,
    out: torch.Tensor,
    scratch: torch.Tensor,
    *,
    scales: KvScales | None,
    max_context: int,
    tile: VerifyTile | None,
    overlap: bool,
    operands: Operands | None,
) -> None:
    """Launch both kernels on the current stream; `attention_verify` has checked the arguments.

    Args:
        q: as `attention_verify` takes it, like all others here.
        keys: of one layer.
        values: of one layer.
        gate: before its sigmoid.
        start: committed positions.
        depths: of the rows.
        paths: of the rows.
        out: bf16 [T, H * 256], written.
        scratch: fp32, for partial results.
        scales: of a store of codes; None for BF16.
        max_context: the context class.
        tile: launch choice; None for the default.
        overlap: start before the previous kernel of the stream has ended.
        operands: written with the result; None writes none.

    Raises:
        ValueError: the tile does not fit.

    Side effects:
        Compiles and loads both kernels where that was not done yet, and keeps a plan of the size.
    """
    rows, heads = q.shape[:2]
    groups, device = keys.shape[0], q.get_device()
    plan = _plan(rows, heads, groups, max_context, keys.itemsize, tile, overlap, device)
    partials, own_slots = plan.chunks * rows * heads, -(-rows // 8) * 8
    key_maps, value_maps = (store_maps(one, (plan.unit, own_slots)) for one in (keys, values))
    sums = scratch.data_ptr()
    powers = sums + 2 * partials * HEAD_DIM
    tops = powers + 4 * partials * HEAD_DIM // SIDE
    weights = tops + 4 * partials
    plan.verify.launch(
        plan.verify_shape,
        VerifyArguments(
            q.data_ptr(), start.data_ptr(), depths.data_ptr(), paths.data_ptr(),
            None if scales is None else scales.keys.data_ptr(),
            None if scales is None else scales.values.data_ptr(),
            sums, powers, tops, weights, plan.shares.data_ptr(), q.stride(0), rows, heads, groups,
            plan.row_groups.rows, plan.row_groups.number, plan.bins, plan.chunks, own_slots,
            HEAD_DIM**-0.5 * math.log2(math.e),
        ),
        *key_maps, *value_maps,
    )  # fmt: skip
    plan.combine.launch(
        plan.combine_shape,
        CombineArguments(
            sums, powers, tops, weights, gate.data_ptr(), out.data_ptr(), start.data_ptr(),
            depths.data_ptr(), gate.stride(0), gate.stride(1), out.stride(0), rows, heads,
            plan.chunks, next_operands(operands),
        ),
    )  # fmt: skip


@dataclass(frozen=True)
class _Plan:
    """What the launches of one size have in common."""

    verify: CudaKernel
    combine: CudaKernel
    verify_shape: Launch
    combine_shape: Launch
    row_groups: RowGroups
    bins: int
    chunks: int
    shares: torch.Tensor
    unit: int


@cache
def _plan(
    rows: int,
    heads: int,
    groups: int,
    max_context: int,
    kv_bytes: int,
    tile: VerifyTile | None,
    overlap: bool,
    device: int,
) -> _Plan:
    """Work out both launches once: in a round the host has some 10 us for each."""
    share, sm = heads // groups, sm_of(gpu.choices(device))
    parts = row_groups(rows, share, sm, max_context, kv_bytes)
    if tile is None:
        tile = default(parts.rows, share, sm, max_context, kv_bytes)
    _expect_tile(tile, parts, share, sm, kv_bytes)
    chunks = num_chunks(max_context)
    num_sms = gpu.num_sms(device)
    streams = groups * parts.number
    bins = min(chunks, max(1, num_sms * tile.per_sm // streams))
    shares = share_table(
        max_context,
        bins,
        tile.streams // tile.per_sm,
        2 * HEAD_DIM * kv_bytes,
        2 * HEAD_DIM * parts.rows * share,
    )
    merge = combine_tile.default(rows * heads, chunks, num_sms)
    return _Plan(
        load(tile.kernel, tuple(tile.macros(share).items()), overlap, device),
        load("combine", tuple(merge.macros(kv_bytes).items()), overlap, device),
        Launch(bins * streams, tile.threads, tile.shared_bytes, overlap=overlap),
        Launch(rows * heads, merge.threads, merge.shared_bytes(chunks), overlap=overlap),
        parts,
        bins,
        chunks,
        shares.to(torch.device("cuda", device)),
        tile.unit,
    )


def cubin(
    kernel: str, choices: tuple[tuple[str, int], ...], overlap: bool, capability: Capability
) -> bytes:
    """Compile a kernel; needs no GPU.

    Args:
        kernel: "verify", "verify_codes", "combine" or "compact", the stem of its source.
        choices: macros of its tile.
        overlap: start before the previous kernel of the stream has ended.
        capability: compute capability, such as (12, 1).
    """
    path = Path(__file__).with_name(f"{kernel}.cu")
    return nvrtc.compile_file(path, capability, {**dict(choices), "OVERLAP": int(overlap)})


@cache
def load(
    kernel: str, choices: tuple[tuple[str, int], ...], overlap: bool, device: int
) -> CudaKernel:
    """Compile and load a kernel on the current device, once for each set of choices."""
    return CudaKernel(cubin(kernel, choices, overlap, gpu.chip(device)), kernel)


def _expect_tile(tile: VerifyTile, parts: RowGroups, share: int, sm: Sm, kv_bytes: int) -> None:
    holds = tile.m_tiles * 16 >= parts.rows * share and tile.kv_bytes == kv_bytes
    if not holds or not tile.fits(sm):
        raise ValueError(
            f"attention_verify: {tile} does not fit {parts.rows} rows of {share} heads on "
            f"sm_{sm} and numbers of {kv_bytes} bytes; take "
            "kernels.attention.verify_tile.default"
        )
