"""Choose tiles where no table holds a weight, list those worth timing, read those of a table.

Pure Python: sizes in, launch choices out. The rules keep what was measured (README.md): a slice
of one to three steps keeps the activations in registers, and few warps' sums meet sooner.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from kernels.common.shared_memory import MAX_SHARED_BYTES
from kernels.linear.tile import (
    ROW_CLASSES,
    SkinnyProblem,
    SkinnyTile,
    SkinnyTiles,
    Source,
    fits,
    longest_slice,
)

LARGE_N = 65_536
"""Outputs from which a product is so long that its start and end no longer count: heads."""


SPILLED = 28
"""Registers over the limit that a launch of 17 rows or more may need on Hopper: a few spills in one
launch cost less there than a second launch (README.md)."""


def defaults(
    N: int, Kp: int, format_name: str, capability: tuple[int, int], *, paired: bool = False
) -> SkinnyTiles:
    """Return the launch choices of a weight.

    Args:
        N: outputs.
        Kp: inputs, a multiple of 128.
        format_name: name of the weight's format.
        capability: the GPU's compute capability.
        paired: gate and up end in one output.

    Raises:
        ValueError: no launch fits the GPU's shared memory.
    """
    hopper = capability[0] in (9, 10)
    classes = [SkinnyProblem(N, Kp, format_name, rows, paired) for rows in ROW_CLASSES]
    shapes = _shapes(classes[0], hopper=hopper)
    for splits, warps, source in _orders(classes[0], hopper=hopper):
        tiles = [_first_that_serves(splits, warps, source, shapes, one, hopper) for one in classes]
        if tiles[0] and tiles[1]:
            return SkinnyTiles(tiles[0], tiles[1], tiles[3], tiles[2])
    raise ValueError(
        f"no skinny launch fits {format_name} {N}x{Kp} on sm_{capability[0]}{capability[1]}; "
        "multiply it as two halves"
    )


def lookup(
    rows: Iterable[Mapping[str, Any]], N: int, Kp: int, format_name: str
) -> SkinnyTiles | None:
    """Find a weight's launch choices in a tile table; None where it has none.

    Args:
        rows: rows of `tiles/sm_*.toml`, as parsed; the first of a class counts.
        N: outputs.
        Kp: inputs, padded.
        format_name: name of the weight's format.

    Raises:
        ValueError: the classes of the entry have different orders, or a field is missing.
    """
    found: dict[int, SkinnyTile] = {}
    wanted = {"op": "skinny_linear", "N": N, "K": Kp, "format": format_name}
    for row in rows:
        if all(row.get(name) == value for name, value in wanted.items()):
            found.setdefault(row["rows"], from_row(row))
    if not found:
        return None
    if not {8, 16} <= found.keys():
        raise ValueError(
            f"a tile table holds {format_name} {N}x{Kp} for {sorted(found)} rows, "
            "expected 8 and 16; run qwen38 tune to write it anew"
        )
    return SkinnyTiles(found[8], found[16], found.get(32), found.get(24))


def from_row(row: Mapping[str, Any]) -> SkinnyTile:
    """Read a tile from the fields of a table's row."""
    names = ("splits", "warps", "tiles", "stages", "source", "buffers", "per_sm", "most_rows")
    return SkinnyTile(**{name: row[name] for name in names})


def candidates(problem: SkinnyProblem, capability: tuple[int, int]) -> tuple[SkinnyTile, ...]:
    """List the tiles worth timing for a problem on a GPU: those that fit, the default among them.

    Args:
        problem: sizes, format, and the most rows of the class.
        capability: the GPU's compute capability.
    """
    hopper = capability[0] in (9, 10)
    default = defaults(problem.N, problem.Kp, problem.format, capability, paired=problem.paired)
    first = default.serving(problem.rows) or replace(default.upto_16, most_rows=ROW_CLASSES[1])
    found = [
        SkinnyTile(splits, warps, tiles, stages, source, buffers)
        for splits, warps, source in _orders(problem, hopper=hopper)
        for tiles in (1, 2, 3, 4)
        for stages in (2, 3, 4)
        for buffers in (2, 3)
        if (tiles, buffers) != (4, 3)
    ]
    good = [tile for tile in found if _serves(tile, problem, hopper)]
    if problem.rows > ROW_CLASSES[1]:
        narrow = replace(problem, rows=ROW_CLASSES[1])
        twice = [
            replace(tile, most_rows=narrow.rows) for tile in found if _serves(tile, narrow, hopper)
        ]
        good += twice
    return tuple(dict.fromkeys((first, *good)))


def registers(tile: SkinnyTile, problem: SkinnyProblem) -> int:
    """Estimate a thread's registers: operands, sums, and forty for all else."""
    steps = longest_slice(tile, problem) if tile.source == "registers" else 1
    return 16 * steps * problem.row_blocks + 4 * tile.tiles * problem.row_blocks + 40


def _most_registers(tile: SkinnyTile) -> int:
    """Return what a thread may use: the register file, shared by warps in steps of eight."""
    warps_a_scheduler = -(-tile.warps * tile.per_sm // 4)
    return min(255, 16_384 // (32 * warps_a_scheduler) // 8 * 8)


def _serves(tile: SkinnyTile, problem: SkinnyProblem, hopper: bool) -> bool:
    num_sms, limit = (132, MAX_SHARED_BYTES[90]) if hopper else (48, MAX_SHARED_BYTES[121])
    spilled = SPILLED if hopper and problem.rows > ROW_CLASSES[1] else 0
    few = registers(tile, problem) <= _most_registers(tile) + spilled
    return few and fits(tile, problem, num_sms, limit)


def _first_that_serves(
    splits: int,
    warps: int,
    source: Source,
    shapes: Iterable[tuple[int, int]],
    problem: SkinnyProblem,
    hopper: bool,
) -> SkinnyTile | None:
    tiles = (SkinnyTile(splits, warps, tiles, stages, source, 2) for tiles, stages in shapes)
    return next((tile for tile in tiles if _serves(tile, problem, hopper)), None)


def _shapes(problem: SkinnyProblem, *, hopper: bool) -> list[tuple[int, int]]:
    """Tiles side by side and stages, the best guess first."""
    if problem.paired:
        return [(2, 3), (2, 2)]
    most = {"nvfp4": 3 if hopper else 2, "bf16": 1}.get(problem.format, 1 if hopper else 2)
    return [(tiles, stages) for tiles in range(most, 0, -1) for stages in (3, 2)]


def _orders(problem: SkinnyProblem, *, hopper: bool) -> list[tuple[int, int, Source]]:
    """Splits and warps with where activations stay, the best guess first."""
    steps = problem.num_steps
    if not hopper:
        return [(1, min(steps, warps), "global") for warps in (8, 4, 16)]
    few = [(1, min(steps, 8)), (1, min(steps, 10)), (1, min(steps, 20))]
    cut = [
        (splits, -(-steps // (splits * slice_steps)))
        for splits, slice_steps in ((1, 1), (2, 1), (1, 2), (2, 2), (2, 3), (4, 1), (4, 2), (4, 3))
    ]
    fitting = [one for one in cut if one[1] <= (20 if one[0] * one[1] >= steps else 12)]
    ordered = [*few, *fitting] if problem.N >= LARGE_N else [*fitting, *few]
    kept: list[tuple[int, int, Source]] = [
        (splits, warps, "registers") for splits, warps in dict.fromkeys(ordered)
    ]
    return [*kept, (1, min(steps, 8), "global")]
