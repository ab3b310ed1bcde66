"""Compile, load and launch verify.cu or verify_codes.cu, and combine.cu; `verify.py` checks."""

import ctypes
import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch

from kernels.attention.chunks import num_chunks
from kernels.attention.kv_codes import KvScales
from kernels.attention.shares import share_table
from kernels.attention.store_maps import store_maps
from kernels.attention.verify_tile import (
    HEAD_DIM,
    Capability,
    RowGroups,
    VerifyTile,
    default,
    row_groups,
)
from kernels.common import nvrtc
from kernels.common.cuda_kernel import CudaKernel, Launch
from kernels.common.operands import Operands
from kernels.common.operands_arguments import NextOperands, next_operands

COMBINE_THREADS, STRANDS = 512, 8


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
    """Return the fp32 elements that partial results take: sums, tops and weights of each chunk.

    Args:
        rows: T.
        heads: query heads.
        max_context: the context class.
    """
    return num_chunks(max_context) * rows * heads * (HEAD_DIM + 2)


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
    """Launch both kernels on the current stream; shapes are those of `attention_verify`."""
    rows, heads = q.shape[:2]
    groups, device = keys.shape[0], q.get_device()
    plan = _plan(rows, heads, groups, max_context, keys.itemsize, tile, overlap, device)
    partials, own_slots = plan.chunks * rows * heads, -(-rows // 8) * 8
    key_maps, value_maps = (store_maps(one, (plan.unit, own_slots)) for one in (keys, values))
    sums = scratch.data_ptr()
    tops = sums + 4 * partials * HEAD_DIM
    weights = tops + 4 * partials
    plan.verify.launch(
        plan.verify_shape,
        VerifyArguments(
            q.data_ptr(), start.data_ptr(), depths.data_ptr(), paths.data_ptr(),
            None if scales is None else scales.keys.data_ptr(),
            None if scales is None else scales.values.data_ptr(),
            sums, tops, weights, plan.shares.data_ptr(), q.stride(0), rows, heads, groups,
            plan.row_groups.rows, plan.row_groups.number, plan.bins, plan.chunks, own_slots,
            HEAD_DIM**-0.5 * math.log2(math.e),
        ),
        *key_maps, *value_maps,
    )  # fmt: skip
    plan.combine.launch(
        plan.combine_shape,
        CombineArguments(
            sums, tops, weights, gate.data_ptr(), out.data_ptr(), start.data_ptr(),
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
    share, capability = heads // groups, family(torch.cuda.get_device_capability(device))
    parts = row_groups(rows, share, capability, max_context)
    if tile is None:
        tile = default(parts.rows, share, capability, max_context, kv_bytes)
    _expect_tile(tile, parts, share, capability, kv_bytes)
    chunks = num_chunks(max_context)
    num_sms = int(torch.cuda.get_device_properties(device).multi_processor_count)
    streams = groups * parts.number
    bins = min(chunks, max(1, num_sms * tile.per_sm // streams))
    shares = share_table(
        max_context,
        bins,
        tile.streams // tile.per_sm,
        2 * HEAD_DIM * kv_bytes,
        4 * HEAD_DIM * parts.rows * share,
        tile.own_positions,
    )
    return _Plan(
        load(tile.kernel, tuple(tile.macros(share).items()), overlap, device),
        load("combine", combine_macros(rows * heads, chunks, num_sms, kv_bytes), overlap, device),
        Launch(bins * streams, tile.threads, tile.shared_bytes, overlap=overlap),
        Launch(
            rows * heads,
            COMBINE_THREADS,
            combine_shared_bytes(chunks),
            overlap=overlap,
        ),
        parts,
        bins,
        chunks,
        shares.to(torch.device("cuda", device)),
        tile.unit,
    )


def family(capability: tuple[int, int]) -> Capability:
    """Return the family of GPUs whose tiles a GPU takes."""
    families: dict[int, Capability] = {9: 90, 10: 100}
    return families.get(capability[0], 121)


def combine_macros(
    blocks: int, chunks: int, num_sms: int, kv_bytes: int
) -> tuple[tuple[str, int], ...]:
    """Return what combine.cu is compiled with: a few blocks with many chunks ask far ahead."""
    ahead = 12 if 2 * blocks <= num_sms and chunks > 2 * STRANDS else 2
    return (("AHEAD", ahead), ("KV_BYTES", kv_bytes))


def combine_shared_bytes(chunks: int) -> int:
    """Return the dynamic shared memory of a block of combine.cu."""
    strands = COMBINE_THREADS * 16 + STRANDS * 4 + COMBINE_THREADS // 32 * 4
    return -(-2 * chunks // 4) * 16 + strands


def cubin(kernel: str, choices: tuple[tuple[str, int], ...], overlap: bool, target: str) -> bytes:
    """Compile a kernel for a target such as "sm_121a"; needs no GPU.

    Args:
        kernel: "verify", "verify_codes", "combine" or "compact", the stem of its source.
        choices: macros of its tile.
        overlap: start before the previous kernel of the stream has ended.
        target: what to compile for.
    """
    return nvrtc.compile_cubin(_source(kernel), target, {**dict(choices), "OVERLAP": int(overlap)})


@cache
def load(
    kernel: str, choices: tuple[tuple[str, int], ...], overlap: bool, device: int
) -> CudaKernel:
    """Compile and load a kernel on the current device, once for each set of choices."""
    target = nvrtc.architecture(torch.cuda.get_device_capability(device))
    return CudaKernel(cubin(kernel, choices, overlap, target), kernel)


@cache
def _source(kernel: str) -> str:
    return nvrtc.read_source(Path(__file__).with_name(f"{kernel}.cu"))


def _expect_tile(
    tile: VerifyTile, parts: RowGroups, share: int, capability: Capability, kv_bytes: int
) -> None:
    holds = tile.m_tiles * 16 >= parts.rows * share and tile.kv_bytes == kv_bytes
    if not holds or not tile.fits(capability):
        raise ValueError(
            f"attention_verify: {tile} does not fit {parts.rows} rows of {share} heads on "
            f"sm_{capability} and numbers of {kv_bytes} bytes; take "
            "kernels.attention.verify_tile.default"
        )
