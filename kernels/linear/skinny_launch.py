"""Compile, load and launch skinny.cu or skinny_streamed.cu; `skinny.py` has checked arguments."""

import ctypes
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch

from kernels.common import nvrtc
from kernels.common.cuda_kernel import CudaKernel, Launch, TensorMap, byte_map
from kernels.common.operands import Operands
from kernels.common.operands_arguments import NextOperands, addresses, next_operands
from kernels.linear.formats import STEP, TILE_ROWS
from kernels.linear.streamed import GROUP_TILES
from kernels.linear.tile import (
    SkinnyProblem,
    SkinnyTile,
    fits,
    macros,
    num_teams,
    shared_bytes,
)
from kernels.linear.tile_choice import is_hopper, nominal_gpu
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

PIECE_BYTES = 64
"""Bytes of a row that lie side by side in shared memory; lanes then read it without a conflict."""

RUN_BYTES = 128
"""Scales of one tile and step."""

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
    )
    maps = _maps_for(tile, weight, plan.problem.share)
    plan.kernel.launch(plan.shape, arguments, *maps)


@dataclass(frozen=True)
class _Plan:
    """What the launches of one tile, size and epilogue have in common."""

    kernel: CudaKernel
    problem: SkinnyProblem
    teams: int
    shape: Launch


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
    return _Plan(kernel, problem, teams, shape)


def _sized_for(tile: SkinnyTile, problem: SkinnyProblem, device: int) -> int:
    """Return the multiprocessors that a launch shares its tiles out for.

    Those of the device; where the shares of so few do not fit a block's shared memory, those that
    tiles are chosen for: what finds no room at first follows when room is made. Changes no bit.
    """
    nominal, limit = nominal_gpu(is_hopper(torch.cuda.get_device_capability(device)))
    own = int(torch.cuda.get_device_properties(device).multi_processor_count)
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
    target: str,
    epilogue: int = STORE,
    fp32_out: bool = False,
    overlap: bool = False,
    prepared: bool = False,
) -> bytes:
    """Compile the kernel of a tile for a target such as "sm_121a"; needs no GPU."""
    choices = dict(macros(tile, problem))
    choices |= {"EPILOGUE": epilogue, "OUT_FP32": int(fp32_out), "OVERLAP": int(overlap)}
    choices["PREPARED"] = int(prepared)
    if has_converter(target):
        choices["E2M1_CONVERTER"] = 1
    source = _source(STREAMED_SOURCE if tile.is_streamed else SOURCE)
    return nvrtc.compile_cubin(source, target, choices)


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
        target = nvrtc.architecture(torch.cuda.get_device_capability(device))
        code = cubin(tile, problem, target, epilogue, fp32_out, overlap, prepared)
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


def _maps_for(tile: SkinnyTile, weight: Weight, share: int) -> tuple[TensorMap, ...]:
    """Return the maps that a launch takes: of a group's tiles, or of four and of one."""
    if tile.is_streamed:
        return (*_tensor_maps(weight, GROUP_TILES, 1), *_tensor_maps(weight, 1, 1))
    return _tensor_maps(weight, tile.tiles // share, share)


def _tensor_maps(weight: Weight, tiles: int, share: int) -> tuple[TensorMap, TensorMap]:
    """Describe codes and scale runs to the copy engine, once for each place in memory.

    A box is a step of some tiles: of each half of a pair, of each 64 bytes of the step, all rows.

    Args:
        weight: N rows of Kp inputs.
        tiles: of 16 outputs, in each half of a box.
        share: halves: 2 where gate and up end in one output.
    """
    codes = weight.codes
    # both places: a model that is freed leaves its codes' address to one with scales elsewhere
    places = tuple(one.data_ptr() for one in weight.tensors()[:2])
    key = (format_name(weight), places, codes.shape, tiles, share)
    found = _maps.get(key)
    if found is None:
        rows, row_bytes = codes.shape[0] // share, codes.shape[1] * codes.element_size()
        step_bytes = STEP * row_bytes // padded_inputs(weight)
        of_codes = byte_map(
            codes.data_ptr(),
            (PIECE_BYTES, rows, row_bytes // PIECE_BYTES, share),
            (row_bytes, PIECE_BYTES, rows * row_bytes),
            (PIECE_BYTES, tiles * TILE_ROWS, step_bytes // PIECE_BYTES, share),
        )
        of_runs = of_codes
        if isinstance(weight, Nvfp4Weight):
            runs = weight.scale_runs
            rows, row_bytes = runs.shape[0] // share, runs.shape[1] * RUN_BYTES
            of_runs = byte_map(
                runs.data_ptr(),
                (row_bytes, rows, share),
                (row_bytes, rows * row_bytes),
                (RUN_BYTES, tiles, share),
            )
        found = _maps[key] = (of_codes, of_runs)
    return found


_maps: dict[object, tuple[TensorMap, TensorMap]] = {}


@cache
def _source(path: Path) -> str:
    return nvrtc.read_source(path)
