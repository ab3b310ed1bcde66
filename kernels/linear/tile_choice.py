"""Choose tiles where no table holds a weight, list those worth timing, read those of a table.

Pure Python: sizes in, launch choices out. The rules keep what was measured (README.md).
"""

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from typing import Any

from kernels.common.chips import Capability, has_large_blocks, has_wgmma
from kernels.common.shared_memory import MAX_SHARED_BYTES
from kernels.linear.streamed import GROUP_TILES
from kernels.linear.tile import CLUSTERS, ROW_CLASSES, SkinnyProblem, SkinnyTile, SkinnyTiles
from kernels.linear.tile_room import fits, most_tiles, num_teams

OP, PAIR_OP = "skinny_linear", "skinny_pair"
"""What rows of a table are for: keys of the family's `ops`."""

PAIRED_FORMAT = "nvfp4"
"""Gate over up of these codes end in one output. Of 8-bit codes a round takes 0.5 to 0.9 % longer
so (H200)."""

LARGE_SHAPES = (
    (2, 4, 2), (8, 8, 3), (8, 11, 2), (4, 6, 3), (8, 12, 2), (2, 2, 4), (8, 11, 1), (4, 8, 1),
    (2, 4, 1), (4, 4, 2), (4, 4, 1), (2, 2, 1), (8, 8, 1), (1, 1, 1), (8, 4, 1),
)  # fmt: skip
"""Splits, crew and tiles, the fastest on an H200 first."""

SMALL_SHAPES = ((1, 1, 2), (1, 1, 1), (2, 1, 2), (4, 1, 2))
"""No clusters where a block has room: 48 multiprocessors that read 5 GB/s each wait for memory
whatever they do."""

SWEPT = (
    (1, (1, 2, 3)), (2, (2, 3, 4, 5, 6)), (4, (4, 6, 8, 10, 11, 12)),
    (8, (4, 8, 10, 11, 12, 16, 20, 22)),
)  # fmt: skip
"""Splits, and the crews that are worth timing with them: mostly 8 to 24 warps that multiply."""


DEPTHS = (3, 4, 5, 6, 8, 10)
"""Steps that the ring of a streamed launch may hold: more ask for so much at the start that the
activations wait behind it."""


STREAMED_STAGES = 5
"""Stages of a streamed launch that no table holds, at most."""


def paired_to(capability: Capability) -> int:
    """Return the rows up to which gate over up end in one output on a GPU.

    The sums of more than 16, of two tiles side by side, leave a block too little room for weights
    on their way, unless activations stream past.

    Args:
        capability: the GPU's compute capability.
    """
    return ROW_CLASSES[-1] if has_wgmma(capability) else ROW_CLASSES[1]


def defaults(
    N: int, Kp: int, format_name: str, capability: Capability, *, paired: bool = False
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
    classes = (SkinnyProblem(N, Kp, format_name, rows, paired) for rows in ROW_CLASSES)
    upto_8, upto_16, upto_24, upto_32 = (_default(one, capability) for one in classes)
    if upto_8 is None or upto_16 is None:
        raise ValueError(
            f"no skinny launch fits {format_name} {N}x{Kp} on sm_{capability[0]}{capability[1]}; "
            "multiply it as two halves"
        )
    return SkinnyTiles(upto_8, upto_16, upto_32, upto_24)


def lookup(
    rows: Iterable[Mapping[str, Any]], N: int, Kp: int, format_name: str, *, paired: bool = False
) -> SkinnyTiles | None:
    """Find a weight's launch choices in a tile table; None where it has none.

    Args:
        rows: rows of `tiles/sm_*.toml`, as parsed; the first of a class counts.
        N: outputs.
        Kp: inputs, padded.
        format_name: name of the weight's format.
        paired: gate and up end in one output.

    Raises:
        ValueError: the entry lacks a class that every weight needs, or a row a field.
    """
    found: dict[int, SkinnyTile] = {}
    wanted = {"op": PAIR_OP if paired else OP, "N": N, "K": Kp, "format": format_name}
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
    """Read a tile from the fields of a table's row.

    Raises:
        ValueError: the row lacks a field; `tune` of another version wrote it.
    """
    names = [one.name for one in fields(SkinnyTile)]
    if missing := [name for name in names if name not in row]:
        raise ValueError(
            f"a row has no {' and no '.join(missing)}, which a tile of this version has; "
            "run qwen38 tune --family linear to measure it anew"
        )
    return SkinnyTile(**{name: row[name] for name in names})


def candidates(problem: SkinnyProblem, capability: Capability) -> tuple[SkinnyTile, ...]:
    """List the tiles worth timing for a problem on a GPU: those that fit, the default among them.

    Args:
        problem: sizes, format, and the most rows of the class.
        capability: the GPU's compute capability.
    """
    large = has_large_blocks(capability)
    good = _worth_timing(problem, large)
    if has_wgmma(capability):
        good += _streamed(problem)
    if problem.rows > ROW_CLASSES[1]:
        narrow = _worth_timing(replace(problem, rows=ROW_CLASSES[1]), large)
        good += [replace(tile, most_rows=ROW_CLASSES[1]) for tile in narrow]
    return tuple(dict.fromkeys((default_entry(problem, capability), *good)))


def default_entry(problem: SkinnyProblem, capability: Capability) -> SkinnyTile:
    """Return what a table would hold for a problem if it held the default; see `candidates`."""
    found = defaults(problem.N, problem.Kp, problem.format, capability, paired=problem.paired)
    return found.serving(problem.rows) or replace(found.upto_16, most_rows=ROW_CLASSES[1])


def nominal_gpu(large: bool) -> tuple[int, int]:
    """Return what tiles are chosen for: multiprocessors, and bytes of shared memory of a block.

    Args:
        large: a block may have 227 KiB, as on an H200; else 99, as on a GB10.
    """
    return (132, MAX_SHARED_BYTES[90]) if large else (48, MAX_SHARED_BYTES[121])


def _busy(tile: SkinnyTile, problem: SkinnyProblem, num_sms: int) -> float:
    """Return which part of a GPU's warps has work while the longest-working team has."""
    groups = -(-most_tiles(tile, problem, num_sms) // tile.tiles)
    teams = num_teams(tile, problem, num_sms)
    blocks = teams // tile.crew * tile.splits
    return problem.num_tiles / (groups * tile.tiles * teams) * min(1.0, blocks / num_sms)


def _registers(tile: SkinnyTile, problem: SkinnyProblem) -> int:
    """Estimate a thread's registers: sums and operands, or activations on their way."""
    blocks = problem.row_blocks
    sums = 4 * tile.tiles * blocks
    if tile.source == "global":  # activations are converted beside the products
        return sums + (28 if problem.format == "fp8_block" else 20) * blocks + 44
    moved = -(-problem.longest_slice * 4 // tile.crew)
    return max(sums + 8 * blocks + 44, 6 * min(moved * blocks, 10) + 36)


def _default(problem: SkinnyProblem, capability: Capability) -> SkinnyTile | None:
    """Return the first shape of those that keep most warps busy; few warps hide less waiting.

    Many rows of a pair stream past where they can.
    """
    large = has_large_blocks(capability)
    num_sms, _ = nominal_gpu(large)
    if problem.paired and ROW_CLASSES[1] < problem.rows <= paired_to(capability):
        streamed = [one for one in _streamed(problem) if one.stages <= STREAMED_STAGES]
        if streamed:
            return max(streamed, key=lambda tile: (-tile.splits, tile.finishers, tile.stages))
    tiles = (_with_ring(shape, problem, large) for shape in _shapes(problem, large))

    def worth(tile: SkinnyTile) -> float:
        in_flight = min(1.0, tile.workers * tile.tiles / 24)
        return round(_busy(tile, problem, num_sms), 1) * in_flight**0.25

    return max((tile for tile in tiles if tile is not None), key=worth, default=None)


def _with_ring(
    shape: tuple[int, int, int], problem: SkinnyProblem, large: bool
) -> SkinnyTile | None:
    splits, crew, wide = shape
    source = "shared" if large else "global"
    deepest = 4 if wide == 1 else 3
    tiles = (
        _with_finishers(SkinnyTile(splits, crew, wide, one, source), problem, large)
        for one in (deepest, 2)
    )
    return next((tile for tile in tiles if _serves(tile, problem, large)), None)


def _shapes(problem: SkinnyProblem, large: bool) -> list[tuple[int, int, int]]:
    """Splits, crew and tiles, the best guess first; of a pair gate and up lie side by side."""
    shapes = LARGE_SHAPES if large else SMALL_SHAPES
    if not problem.paired:
        return list(shapes)
    return list(dict.fromkeys((splits, crew, 2) for splits, crew, _ in shapes))


def _worth_timing(problem: SkinnyProblem, large: bool) -> list[SkinnyTile]:
    """List the tiles that fit and leave few warps idle, each with rings of two or three depths."""
    num_sms, _ = nominal_gpu(large)
    shapes = (
        _with_finishers(SkinnyTile(splits, crew, wide, 2, source), problem, large)
        for splits, crews in SWEPT
        for crew in crews
        for wide in (1, 2, 3, 4)
        for source in (("shared",) if large else ("global", "shared"))
    )
    found = [
        replace(tile, stages=depths[at])
        for tile in shapes
        if (depths := _depths(tile, problem, large))
        for at in sorted({min(1, len(depths) - 1), len(depths) // 2, len(depths) - 1})
    ]
    most = max((_busy(tile, problem, num_sms) for tile in found), default=0.0)
    return [tile for tile in found if _busy(tile, problem, num_sms) >= 0.8 * most]


def _streamed(problem: SkinnyProblem) -> list[SkinnyTile]:
    """List launches past which activations stream: what a block holds follows from its cluster."""
    num_sms, limit = nominal_gpu(large=True)
    found = list[SkinnyTile]()
    for splits in CLUSTERS:
        tile = SkinnyTile(splits, 1, 1, 2, "streamed", 0)
        held = most_tiles(tile, problem, num_sms)
        tile = replace(tile, crew=-(-held // GROUP_TILES), tiles=held)
        whole = held - 1
        shared = replace(tile, crew=-(-whole // GROUP_TILES), tiles=whole, finishers=GROUP_TILES)
        found += [
            one
            for kind in ((tile, shared) if whole else (tile,))
            for stages in DEPTHS
            if fits(one := replace(kind, stages=stages), problem, num_sms, limit)
        ]
    return found


def _with_finishers(tile: SkinnyTile, problem: SkinnyProblem, large: bool) -> SkinnyTile:
    """Give a tile finishers where its teams have several groups: one a team, or one for two."""
    num_sms, _ = nominal_gpu(large)
    if most_tiles(tile, problem, num_sms) <= tile.tiles:
        return replace(tile, finishers=0)
    return replace(tile, finishers=tile.crew if tile.crew <= 6 else -(-tile.crew // 2))


def _depths(tile: SkinnyTile, problem: SkinnyProblem, large: bool) -> list[int]:
    """Stages of a ring with which a tile serves."""
    stages = (2, 3, 4, 5, 6, 8)
    return [one for one in stages if _serves(replace(tile, stages=one), problem, large)]


def _serves(tile: SkinnyTile, problem: SkinnyProblem, large: bool) -> bool:
    num_sms, limit = nominal_gpu(large)
    few = _registers(tile, problem) <= _most_registers(tile)
    return few and fits(tile, problem, num_sms, limit)


def _most_registers(tile: SkinnyTile) -> int:
    """Return what a thread may use: the register file, shared by warps in steps of eight."""
    warps_a_scheduler = -(-tile.warps // 4)
    return min(255, 16_384 // (32 * warps_a_scheduler) // 8 * 8)
