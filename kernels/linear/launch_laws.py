"""State the laws between launches of the skinny kernel on a GPU: none changes a bit."""

from itertools import product

import torch

from kernels.common import domain, gpu
from kernels.common.capture import capture
from kernels.common.chips import measured_like
from kernels.common.compare import beyond_tolerance, different_bits
from kernels.common.family import Law
from kernels.common.operands import Operands, new_operands
from kernels.common.round import MAX_ROWS
from kernels.linear import middle_tile, skinny, truth
from kernels.linear.ahead import Variant, compile_ahead
from kernels.linear.drawn import drawn
from kernels.linear.formats import STEP
from kernels.linear.laws import ROWS
from kernels.linear.middle import middle_linear
from kernels.linear.problems import (
    FORMATS,
    FORMATS_OF_8_BITS_AT_MOST,
    PRODUCT_TOLERANCE,
)
from kernels.linear.skinny import order_of, skinny_linear
from kernels.linear.skinny_launch import SILU_PAIR, STORE
from kernels.linear.tile import SkinnyProblem, SkinnyTile, SkinnyTiles
from kernels.linear.tile_choice import candidates, defaults
from kernels.linear.tile_room import fits
from kernels.linear.weight import Weight, format_name, num_outputs, padded_inputs

MIDDLE_ROWS = (("nvfp4", 64), ("nvfp4", 256), ("fp8_block", 128), ("e4m3_row", 100), ("bf16", 33))
"""Formats and row counts whose default tiles are tried; each compiles for seconds."""

OPERAND_INPUTS = (640, 5120, 17408)
OPERAND_ROWS = tuple(range(1, MAX_ROWS + 1))
"""Inputs and row counts of products whose rows come as operands."""


def _overlap_differs(device: str) -> str | None:
    """Compare two products, the second of the first's result, with overlap and in a graph."""
    for name in FORMATS:
        inputs, first = drawn(name, 16, 1024, 5120, device)
        _, second = drawn(name, 16, 640, 1024, device, seed=2)
        x = inputs["x"]
        middle, out = x.new_empty((16, 1024)), x.new_empty((16, 640))

        def run(
            overlap: bool,
            x: torch.Tensor = x,
            weights: tuple[Weight, Weight] = (first, second),
            outs: tuple[torch.Tensor, torch.Tensor] = (middle, out),
        ) -> None:
            skinny_linear(x, weights[0], overlap=overlap, out=outs[0])
            skinny_linear(outs[0], weights[1], overlap=overlap, out=outs[1])

        run(False)
        expected = out.clone()
        graph = capture([lambda run=run: run(True), lambda run=run: run(True)])
        for how, call in (("eager", lambda run=run: run(True)), ("in a graph", graph.replay)):
            for _ in range(20):
                middle.fill_(torch.nan)
                out.fill_(torch.nan)
                call()
                if fault := different_bits(out, expected, ROWS):
                    return f"{name} {how}: {fault}"
    return None


def _launch_changes_bits(device: str) -> str | None:
    """Compare many candidates with the default, for 8 and 16 rows, in fp32 but for pairs."""
    compile_ahead(
        Variant(tile, problem, SILU_PAIR if problem.paired else STORE, not problem.paired)
        for problem in _swept()
        for tile in _some(problem)
    )
    for problem in _swept():
        inputs, weight = drawn(problem.format, problem.rows, problem.N, problem.Kp, device)
        outs = [_result(inputs["x"], weight, tile, problem) for tile in (None, *_some(problem))]
        for tile, got in zip(_some(problem), outs[1:], strict=True):
            if fault := different_bits(got, outs[0], ROWS):
                return f"{problem.format} {problem.rows} rows {tile}: {fault}"
    return None


def _result(
    x: torch.Tensor, weight: Weight, tile: SkinnyTile | None, problem: SkinnyProblem
) -> torch.Tensor:
    """Multiply with a tile, or the default's: fp32, or bf16 where a pair ends in one output."""
    dtype = torch.bfloat16 if problem.paired else torch.float32
    out = x.new_full((len(x), num_outputs(weight) // problem.share), torch.nan, dtype=dtype)
    tiles = None if tile is None else SkinnyTiles(tile, tile)
    return skinny_linear(x, weight, tiles=tiles, paired=problem.paired, out=out)


def _swept() -> list[SkinnyProblem]:
    """The 27B's widths, with few outputs: the order does not depend on them.

    And few inputs, with so many outputs that most tiles take several groups.
    """
    sizes = [("nvfp4", 6144), ("nvfp4", 5120), ("fp8_block", 5120), ("e4m3_row", 5120),
             ("bf16", 5120)]  # fmt: skip
    plain = [SkinnyProblem(1000, Kp, name, rows) for name, Kp in sizes for rows in (8, 16)]
    pairs = [SkinnyProblem(992, 5120, name, 16, True) for name in ("nvfp4", "fp8_block")]
    many = [SkinnyProblem(13_000, 1024, name, 16) for name in ("nvfp4", "fp8_block", "bf16")]
    return plain + pairs + many


def _some(problem: SkinnyProblem) -> tuple[SkinnyTile, ...]:
    """Some ten candidates, evenly spread, so that each number of splits is among them."""
    found = candidates(problem, gpu.choices())
    return found[:: max(1, len(found) // 10)]


def _wide_calls_differ(device: str) -> str | None:
    """Compare 17 to 32 rows in one launch with the same rows in two."""
    for name in FORMATS:
        for num_inputs in (5120, 640):
            inputs, weight = drawn(name, 32, 200, num_inputs, device, domain.OUTLIERS)
            tiles = skinny.default_for(weight.codes.get_device(), weight)
            two = SkinnyTiles(tiles.upto_8, tiles.upto_16)
            launches = _wide_launches(weight, tiles, device)
            if not launches:
                return f"{name}: no launch of 17 rows or more fits"
            for most, one in launches.items():
                for rows in (most - 7, most):
                    x = inputs["x"][:rows]
                    got, want = (skinny_linear(x, weight, tiles=tiles) for tiles in (one, two))
                    if fault := different_bits(got, want, ROWS):
                        return f"{name} {rows} rows: {fault}"
    return None


def _wide_launches(weight: Weight, tiles: SkinnyTiles, device: str) -> dict[int, SkinnyTiles]:
    """Find tiles that serve up to 24 and 32 rows at once: those of the default, or small ones."""
    limit, num_sms = gpu.shared_bytes(device), gpu.num_sms(device)
    found = dict[int, SkinnyTiles]()
    for most in (24, 32):
        small = SkinnyTile(1, 1, 1, 2, "global", 1)
        tile = tiles.serving(most) or small
        problem = SkinnyProblem(
            num_outputs(weight), padded_inputs(weight), format_name(weight), most
        )
        if fits(tile, problem, num_sms, limit):
            wide, half = (tile, None) if most == 32 else (None, tile)
            found[most] = SkinnyTiles(tiles.upto_8, tiles.upto_16, wide, half)
    return found


def _operands_differ(device: str) -> str | None:
    """Compare rows that come as operands with the rows alone, at every number of rows."""
    compile_ahead(
        Variant(tile, SkinnyProblem(72, num_inputs, name, count), prepared=prepared)
        for name, num_inputs in product(FORMATS_OF_8_BITS_AT_MOST, OPERAND_INPUTS)
        for num_rows, prepared in product(OPERAND_ROWS, (False, True))
        for count, tile in tiles_of(72, num_inputs, name).launches(num_rows)
    )
    for name, num_inputs in product(FORMATS_OF_8_BITS_AT_MOST, OPERAND_INPUTS):
        for values in (domain.NORMAL, *domain.HOSTILE):
            inputs, weight = drawn(name, MAX_ROWS, 72, num_inputs, device, values)
            kinds = inputs["x"], hostile_rows(inputs["x"])
            for num_rows, rows in product(OPERAND_ROWS, kinds):
                x = rows[:num_rows]
                got = skinny_linear(x, weight, operands=written(x, weight))
                if fault := different_bits(got, skinny_linear(x, weight), ROWS):
                    return f"{name} {num_inputs} {values.name} {num_rows} rows: {fault}"
    return None


def tiles_of(N: int, Kp: int, name: str, *, paired: bool = False) -> SkinnyTiles:
    """Return the default launches of a weight on the GPU that is here."""
    return defaults(N, Kp, name, gpu.choices(), paired=paired)


def hostile_rows(x: torch.Tensor) -> torch.Tensor:
    """Move some rows out of the range of fp16, in one slice of K or all, and put NaN in others."""
    x = x.clone()
    x[1, 128:256] *= 1e6
    x[10] *= 1e-7
    x[12, 5], x[15, -1] = torch.nan, torch.inf
    x[29] = 0.0
    return x


def written(x: torch.Tensor, weight: Weight, tile: SkinnyTile | None = None) -> Operands:
    """Operands of rows, and of others in the block that they do not fill."""
    order = order_of(weight, tile)
    assert order is not None
    operands = new_operands(len(x), x.shape[1], order, x.device)
    operands.image.fill_(torch.nan)
    operands.largest.fill_(0x7F00)
    operands.fill(x)
    return operands


def _middle_is_loose(device: str) -> str | None:
    """Compare default tiles of some row counts with fp64, and a few rows with all of them."""
    capability = measured_like(gpu.choices(device))
    for name, rows in MIDDLE_ROWS:
        inputs, weight = drawn(name, rows, 1024, 5120, device, as_stored=True)
        steps = padded_inputs(weight) // STEP
        tile = middle_tile.default(name, num_outputs(weight), steps, rows, capability)
        got, want = middle_linear(inputs["x"], weight), truth.truth_middle(inputs)
        fault = beyond_tolerance(got, want["out"], PRODUCT_TOLERANCE, ROWS, want["out_slack"])
        few = middle_linear(inputs["x"][5:9], weight, tile=tile)
        fault = fault or different_bits(few, got[5:9], ROWS)
        if fault:
            return f"{format_name(weight)} {rows} rows {tile}: {fault}"
    return None


LAUNCH_LAWS = (
    Law("overlap changes no bit, in a graph or out", _overlap_differs, cuda_only=True),
    Law("no tile changes a bit", _launch_changes_bits, cuda_only=True),
    Law("rows that come as operands have the bits of rows alone", _operands_differ, cuda_only=True),
    Law("17 to 32 rows are two launches", _wide_calls_differ, cuda_only=True),
    Law("default tiles of many rows stay in bound", _middle_is_loose, cuda_only=True),
)
"""Laws that are tried on a GPU alone."""
