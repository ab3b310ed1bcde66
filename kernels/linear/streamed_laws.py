"""State the laws of launches past which activations stream, on a GPU: they change no bit."""

from itertools import product

import torch

from kernels.common import gpu
from kernels.common.compare import different_bits
from kernels.common.family import Law
from kernels.common.operands import Operands
from kernels.common.operands_law import wrong_operands
from kernels.common.round import MAX_ROWS
from kernels.linear.ahead import Variant, compile_ahead
from kernels.linear.drawn import drawn
from kernels.linear.launch_laws import hostile_rows, tiles_of, written
from kernels.linear.laws import ROWS
from kernels.linear.skinny import skinny_linear
from kernels.linear.skinny_launch import ADD_RESIDUAL, SILU_PAIR, STORE
from kernels.linear.tile import SkinnyProblem, SkinnyTile, SkinnyTiles
from kernels.linear.tile_choice import candidates
from kernels.linear.weight import Weight

STREAMED_SIZES = ((34816, 1024), (5120, 17408), (200, 6144))
STREAMED_ROWS = (17, 24, 25, MAX_ROWS)
"""Outputs and inputs, and row counts, of launches past which activations stream."""

STREAMED_PAIRS = ((34816, 1024), (10752, 5120), (4864, 6144))
"""Outputs and inputs of those of gate over up. Of the first two tiles are left over, of the others
blocks begin amid a scale run."""


def _streaming_changes_bits(device: str) -> str | None:
    """Compare launches past which activations stream with the default, from rows and operands."""
    problems = [
        SkinnyProblem(N, Kp, "nvfp4", rows)
        for (N, Kp), rows in product(STREAMED_SIZES, STREAMED_ROWS)
    ]
    compile_ahead(
        Variant(tile, problem, epilogue, prepared=epilogue == ADD_RESIDUAL)
        for problem in problems
        for tile in _streamed(problem)
        for epilogue in (STORE, ADD_RESIDUAL)
    )
    for problem in problems:
        inputs, weight = drawn("nvfp4", MAX_ROWS, problem.N, problem.Kp, device)
        for rows in (inputs["x"], hostile_rows(inputs["x"])):
            x = rows[: problem.rows]
            residual = x[:, :1].repeat(1, problem.N)
            want = skinny_linear(x, weight), skinny_linear(x, weight, residual=residual)
            for tile in _streamed(problem):
                one, ready = SkinnyTiles(tile, tile, tile, tile), written(x, weight, tile)
                got = (
                    skinny_linear(x, weight, tiles=one),
                    skinny_linear(x, weight, tiles=one, residual=residual, operands=ready),
                )
                for name, a, b in zip(("rows", "operands"), got, want, strict=True):
                    if fault := different_bits(a, b, ROWS):
                        return f"{problem} {name} {tile}: {fault}"
    return None


def _streaming_changes_pairs(device: str) -> str | None:
    """Compare pairs past which activations stream, and their operands, with two launches."""
    problems = [
        SkinnyProblem(N, Kp, "nvfp4", rows, True)
        for (N, Kp), rows in product(STREAMED_PAIRS, STREAMED_ROWS)
    ]
    compile_ahead(
        Variant(tile, problem, SILU_PAIR, prepared=prepared)
        for problem in problems
        for tile in _streamed(problem)
        for prepared in (False, True)
    )
    for problem in problems:
        inputs, weight = drawn("nvfp4", MAX_ROWS, problem.N, problem.Kp, device)
        narrow = tiles_of(problem.N, problem.Kp, "nvfp4", paired=True)
        narrow = SkinnyTiles(narrow.upto_8, narrow.upto_16)
        for rows, tile in product((inputs["x"], hostile_rows(inputs["x"])), _streamed(problem)):
            x, one = rows[: problem.rows], SkinnyTiles(tile, tile, tile, tile)
            want = skinny_linear(x, weight, tiles=narrow, paired=True)
            operands = written(x, weight, tile)

            def write(
                ready: Operands,
                x: torch.Tensor = x,
                weight: Weight = weight,
                one: SkinnyTiles = one,
                operands: Operands = operands,
            ) -> torch.Tensor:
                return skinny_linear(
                    x, weight, tiles=one, paired=True, operands=operands, ready=ready
                )

            got = skinny_linear(x, weight, tiles=one, paired=True)
            fault = different_bits(got, want, ROWS)
            got = skinny_linear(x, weight, tiles=one, paired=True, operands=operands)
            fault = fault or different_bits(got, want, ROWS)
            fault = fault or wrong_operands(write, problem.rows, problem.N // 2, device)
            if fault:
                return f"{problem} {tile}: {fault}"
    return None


def _streamed(problem: SkinnyProblem) -> list[SkinnyTile]:
    """One tile for each number of blocks that share K, and for tiles that are left over."""
    found = candidates(problem, gpu.choices())
    return list({(one.splits, one.finishers): one for one in found if one.is_streamed}.values())


STREAMED_LAWS = (
    Law("activations that stream past change no bit", _streaming_changes_bits, cuda_only=True),
    Law("gate and up past which they stream do neither", _streaming_changes_pairs, cuda_only=True),
)
"""Laws that are tried on a GPU alone."""
