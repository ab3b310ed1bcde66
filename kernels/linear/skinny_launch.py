"""Compile, load and launch skinny.cu or skinny_streamed.cu; `skinny.py` has checked arguments."""

import ctypes
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch

from kernels.common import gpu, nvrtc
from kernels.common.chips import Capability, has_large_blocks
from kernels.common.cuda_kernel import CudaKernel, Launch
from kernels.common.operands import Operands
from kernels.common.operands_arguments import NextOperands, addresses, next_operands
from kernels.linear.skinny_maps import maps_for
from kernels.linear.streamed import aligned, left_bytes
from kernels.linear.tile import SkinnyProblem, SkinnyTile, macros
from kernels.linear.tile_choice import nominal_gpu
from kernels.linear.tile_room import fits, left_over, num_teams, shared_bytes
from kernels.linear.weight import (
    Fp8BlockWeight,
    Nvfp4Weight,
    Weight,
    format_name,
    num_outputs,
    padded_inputs,
)

SOURCE, STREAMED_SOURCE = (
    Path(__file__).with_name(name) for name in ("skinny.cu", "skinny_streamed.cu")
)

STORE, ADD_RESIDUAL, SILU_PAIR = 0, 1, 2
"""What is done with a sum; numbered as in skinny_problem.cuh."""


class Arguments(ctypes.Structure):
    """`Problem` of skinny_problem.cuh, field for field."""

    _fields_ = [
        ("x", ctypes.c_void_p),
        ("scales", ctypes.c_void_p),
        ("row_scales", ctypes.c_void_p),
        ("residual", ctypes.c_void_p),
        ("out", ctypes.c_void_p),
        ("rows", ctypes.c_int),
        ("n", ctypes.c_int),
        ("steps", ctypes.c_int),
        ("x_stride", ctypes.c_int),
        ("out_stride", ctypes.c_int),
        ("residual_stride", ctypes.c_int),
        ("tiles", ctypes.c_int),
        ("teams", ctypes.c_int),
        ("operands", ctypes.c_void_p),
        ("largest", ctypes.c_void_p),
        ("next", NextOperands),
        ("left_sums", ctypes.c_void_p),
        ("left_slices", ctypes.c_void_p),
    ]


def launch(
    x: torch.Tensor,
    weight: Weight,
    out: torch.Tensor,
    tile: SkinnyTile,
    *,
    residual: torch.Tensor | None = None,
    paired: bool = False,
    overlap: bool = False,
    operands: Operands | None = None,
    ready: Operands | None = None,
    first_row: int = 0,
) -> None:
    """Launch one product with one tile; `skinny_linear` has checked the arguments.

    Args:
        x: bf16 [T, Kp], T from 1 to 32, rows 16-byte aligned.
        weight: on the same device.
        out: bf16 or fp32 [T, N], or bf16 [T, N/2] for a pair.
        tile: launch choice.
        residual: bf16 [T, N], added after the product's rounding.
        paired: the weight is gate over up, and out is silu(gate) * up.
        overlap: start before the previous kernel of the stream has ended.
        operands: of the rows that x is a part of; read where the tile keeps activations in shared
            memory.
        ready: of the rows that a pair's out is a part of; written with it.
        first_row: of x and out in the operands, a multiple of 8.

    Raises:
        ValueError: the tile does not fit.

    Side effects:
        Compiles and loads the kernel where that was not done yet, then launches it on the current
        stream.
    """
    epilogue = SILU_PAIR if paired else ADD_RESIDUAL if residual is not None else STORE
    fp32_out, device = out.dtype == torch.float32, x.get_device()
    size = (num_outputs(weight), padded_inputs(weight), format_name(weight), x.shape[0])
    plan = _plan(tile, size, epilogue, fp32_out, overlap, operands is not None, device)
    scales, row_scales = _scales(weight)
    arguments = Arguments(
        x.data_ptr(),
        scales,
        row_scales,
        0 if residual is None else residual.data_ptr(),
        out.data_ptr(),
        plan.problem.rows,
        plan.problem.N,
        plan.problem.num_steps,
        x.stride(0),
        out.stride(0),
        0 if residual is None else residual.stride(0),
        plan.problem.num_tiles,
        plan.teams,
        *((0, 0) if operands is None else addresses(operands, first_row)),
        next_operands(ready, first_row),
        *plan.left,
    )
    maps = maps_for(tile, weight, plan.problem.share)
    plan.kernel.launch(plan.shape, arguments, *maps)


@dataclass(frozen=True)
class _Plan:
    """What the launches of one tile, size and epilogue have in common.

    ``left`` are addresses: where blocks meet that share tiles, and where they are counted. Both lie
    in ``meeting``, which stays as long as the plan does.
    """

    kernel: CudaKernel
    problem: SkinnyProblem
    teams: int
    shape: Launch
    left: tuple[int, int]
    meeting: torch.Tensor | None


@cache
def _plan(
    tile: SkinnyTile,
    size: tuple[int, int, str, int],
    epilogue: int,
    fp32_out: bool,
    overlap: bool,
    prepared: bool,
    device: int,
) -> _Plan:
    """Work out a launch once: in a round the host has some 10 us for each."""
    problem = SkinnyProblem(*size, paired=epilogue == SILU_PAIR)
    num_sms = _sized_for(tile, problem, device)
    kernel = load(tile, problem, epilogue, fp32_out, overlap, prepared, device)
    teams = num_teams(tile, problem, num_sms)
    shared = shared_bytes(tile, problem, num_sms)
    clusters = teams if tile.is_streamed else teams // tile.crew
    shape = Launch(clusters * tile.splits, tile.warps * 32, shared, tile.splits, overlap)
    sums_bytes, counts_bytes = left_bytes(left_over(tile, problem, num_sms), problem.row_blocks)
    left, meeting = (0, 0), None
    if sums_bytes:
        meeting = _meeting_place(sums_bytes, counts_bytes, device)
        left = meeting.data_ptr() + aligned(counts_bytes), meeting.data_ptr()
    return _Plan(kernel, problem, teams, shape, left, meeting)


@cache
def _meeting_place(sums_bytes: int, counts_bytes: int, device: int) -> torch.Tensor:
    """Return where blocks of a launch leave sums of tiles that they share, behind their counts.

    Counts are 0 between launches, which each leaves as it found it. Launches of a device that share
    tiles run one after another, as those of a stream do.
    """
    size = aligned(counts_bytes) + sums_bytes
    return torch.zeros(size, dtype=torch.uint8, device=f"cuda:{device}")


def _sized_for(tile: SkinnyTile, problem: SkinnyProblem, device: int) -> int:
    """Return the multiprocessors that a launch shares its tiles out for.

    Those of the device; where the shares of so few do not fit a block's shared memory, those that
    tiles are chosen for: what finds no room at first follows when room is made. Changes no bit.
    """
    nominal, limit = nominal_gpu(has_large_blocks(gpu.choices(device)))
    own = gpu.num_sms(device)
    for num_sms in (own, max(own, nominal)):
        if fits(tile, problem, num_sms, limit):
            return num_sms
    raise ValueError(
        f"skinny_linear: {tile} does not fit {problem.format} {problem.N}x{problem.Kp} at "
        f"{problem.rows} rows; take one of kernels.linear.tile_choice.candidates"
    )


def cubin(
    tile: SkinnyTile,
    problem: SkinnyProblem,
    capability: Capability,
    epilogue: int = STORE,
    fp32_out: bool = False,
    overlap: bool = False,
    prepared: bool = False,
) -> bytes:
    """Compile the kernel of a tile; needs no GPU.

    Args:
        tile: launch choice.
        problem: sizes, format and rows.
        capability: compute capability, such as (12, 1).
        epilogue: what is done with a sum.
        fp32_out: sums are written as they are.
        overlap: start before the previous kernel of the stream has ended.
        prepared: activations may come as operands.
    """
    choices = dict(macros(tile, problem))
    choices |= {"EPILOGUE": epilogue, "OUT_FP32": int(fp32_out), "OVERLAP": int(overlap)}
    choices["PREPARED"] = int(prepared)
    if has_converter(nvrtc.architecture(capability)):
        choices["E2M1_CONVERTER"] = 1
    source = STREAMED_SOURCE if tile.is_streamed else SOURCE
    return nvrtc.compile_file(source, capability, choices)


def load(
    tile: SkinnyTile,
    problem: SkinnyProblem,
    epilogue: int,
    fp32_out: bool,
    overlap: bool,
    prepared: bool,
    device: int,
) -> CudaKernel:
    """Compile and load a kernel on the current device, once for each set of choices."""
    key = tuple(macros(tile, problem).items()), epilogue, fp32_out, overlap, prepared, device
    kernel = _loaded.get(key)
    if kernel is None:
        capability = gpu.chip(device)
        code = cubin(tile, problem, capability, epilogue, fp32_out, overlap, prepared)
        kernel = _loaded[key] = CudaKernel(code, "skinny")
    return kernel


_loaded: dict[object, CudaKernel] = {}


def has_converter(target: str) -> bool:
    """Say whether a target turns e2m1 codes into halves by an instruction."""
    return target.startswith(("sm_100", "sm_103", "sm_12"))


def _scales(weight: Weight) -> tuple[int, int]:
    """Return the addresses of the step scales and of the row scales; 0 where a format has none."""
    if isinstance(weight, Nvfp4Weight):
        return weight.scale_runs.data_ptr(), weight.row_scales.data_ptr()
    if isinstance(weight, Fp8BlockWeight):
        return weight.scales.data_ptr(), 0
    return 0, weight.tensors()[-1].data_ptr()
