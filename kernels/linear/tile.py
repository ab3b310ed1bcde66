"""Describe how a skinny product is launched: who shares K, and what a block holds. Pure Python.

No field of a tile changes a bit: K is always cut in `SLICES`, whose sums are added as one tree.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from kernels.common.round import MAX_ROWS
from kernels.linear.formats import STEP, TILE_ROWS
from kernels.linear.streamed import (
    BRINGERS,
    GROUP_TILES,
    MOST_GROUPS,
    SLICES,
    aligned,
    streamed_bytes,
)

BLOCK_ROWS = 8
"""Activation rows of one matrix instruction."""

BLOCK_BYTES = 4 * BLOCK_ROWS * TILE_ROWS
"""The fp32 sums of one tile and one block of rows."""

TILE_STEP_BYTES = {"nvfp4": 1152, "fp8_block": 2048, "e4m3_row": 2048, "bf16": 4096}
"""Bytes of one tile x one step in the ring, NVFP4's scales included."""

STEP_X_BYTES = 2 * STEP * BLOCK_ROWS
"""Activations of one block of rows and one step, as operands."""

CLUSTERS = (1, 2, 4, 8)
"""Blocks that a cluster may have; each divides `SLICES`."""

ROW_SCALED = ("nvfp4", "e4m3_row")
"""Formats with one fp32 multiplier a row."""

TEAM_BARRIERS = 4
"""A team's barriers beside those of its rings: two for parts that come, one for sums that are
stored, one for sums that have been read."""

MOST_WARPS = 32
"""Warps that a block may have."""

ROW_CLASSES = (8, 16, 24, MAX_ROWS)
"""Most rows of the launches that share an entry of a table."""

Source = Literal["shared", "global", "streamed"]
SOURCES: tuple[Source, ...] = ("shared", "global", "streamed")
"""In the order of SHARED, GLOBAL and STREAMED of skinny_problem.cuh."""


@dataclass(frozen=True)
class SkinnyTile:
    """One launch choice.

    Attributes:
        splits: blocks of a cluster, which share the slices of K evenly: 1, 2, 4 or 8.
        crew: teams that share a block and its activations, each with tiles of its own.
        tiles: tiles of 16 outputs that a warp holds side by side.
        stages: steps of weight in flight for each warp, the one in use included; at least 2.
        source: where the activations stay between uses: in shared memory as operands, or in
            global memory, read and converted anew for each group of tiles. Or they are not kept
            but stream past beside the weights: NVFP4, 17 rows and more, by skinny_streamed.cu,
            where `crew` is a block's warpgroups and `tiles` what they hold together.
        finishers: warps of a block beside those that multiply, which finish all groups but the last
            of their teams; 0 where no team has more than one.
        most_rows: rows of one launch; a call of more takes two of at most 16.
    """

    splits: int
    crew: int
    tiles: int
    stages: int
    source: Source
    finishers: int = 1
    most_rows: int = MAX_ROWS

    @property
    def team_warps(self) -> int:
        """Warps of a team in one block, a slice each."""
        return SLICES // self.splits

    @property
    def is_streamed(self) -> bool:
        """Whether activations stream past."""
        return self.source == "streamed"

    @property
    def workers(self) -> int:
        """Warps of a block that multiply."""
        return self.crew * (GROUP_TILES if self.is_streamed else self.team_warps)

    @property
    def warps(self) -> int:
        """Warps of a block."""
        return self.workers + (BRINGERS if self.is_streamed else self.finishers)

    def as_row(self) -> dict[str, Any]:
        """Return the fields as a row of a tile table."""
        return asdict(self)


@dataclass(frozen=True)
class SkinnyProblem:
    """What a launch is chosen for.

    Attributes:
        N: outputs, gate and up counted both.
        Kp: inputs, a multiple of 128.
        format: name of the weight's format.
        rows: activation rows, 1 to 32.
        paired: gate and up end in one output.
    """

    N: int
    Kp: int
    format: str
    rows: int
    paired: bool = False

    @property
    def share(self) -> int:
        """Tiles that make one tile of outputs."""
        return 2 if self.paired else 1

    @property
    def num_tiles(self) -> int:
        """Tiles of 16 outputs."""
        return -(-self.N // TILE_ROWS)

    @property
    def num_steps(self) -> int:
        """Steps of 128 inputs."""
        return self.Kp // STEP

    @property
    def longest_slice(self) -> int:
        """Steps of the longest slice of K."""
        return -(-self.num_steps // SLICES)

    @property
    def row_blocks(self) -> int:
        """Blocks of 8 activation rows."""
        return -(-self.rows // BLOCK_ROWS)


@dataclass(frozen=True)
class SkinnyTiles:
    """The launch choices of one weight, one for each class of rows.

    Attributes:
        upto_8: for 1 to 8 rows.
        upto_16: for 9 to 16.
        upto_32: for 25 to 32; None where two launches of at most 16 rows are faster.
        upto_24: for 17 to 24, likewise: what fits the rows of one class may not fit another's.
    """

    upto_8: SkinnyTile
    upto_16: SkinnyTile
    upto_32: SkinnyTile | None = None
    upto_24: SkinnyTile | None = None

    def serving(self, rows: int) -> SkinnyTile | None:
        """Return the tile of a launch of so many rows; None where they take two launches."""
        tiles = (self.upto_8, self.upto_16, self.upto_24, self.upto_32)
        by_class = zip(ROW_CLASSES, tiles, strict=True)
        tile = next((tile for most, tile in by_class if rows <= most), None)
        return tile if tile is not None and rows <= tile.most_rows else None

    def launches(self, rows: int) -> tuple[tuple[int, SkinnyTile], ...]:
        """Cut 1 to 32 rows into launches: rows and tile of each, in order."""
        tile = self.serving(rows)
        if tile is not None:
            return ((rows, tile),)
        left = rows - ROW_CLASSES[1]
        last = self.upto_8 if left <= ROW_CLASSES[0] else self.upto_16
        return (ROW_CLASSES[1], self.upto_16), (left, last)


def num_teams(tile: SkinnyTile, problem: SkinnyProblem, num_sms: int) -> int:
    """Return the teams of a launch, whole crews, which share the tiles of the weight evenly.

    Of a streamed launch they are its clusters.
    """
    if tile.is_streamed:
        return max(1, min(problem.num_tiles, _resident_clusters(tile, num_sms)))
    crews = -(-problem.num_tiles // problem.share // tile.crew)
    return tile.crew * max(1, min(crews, _resident_clusters(tile, num_sms)))


def most_tiles(tile: SkinnyTile, problem: SkinnyProblem, num_sms: int) -> int:
    """Return the tiles of the team that has most."""
    teams = num_teams(tile, problem, num_sms)
    return -(-(problem.num_tiles // problem.share) // teams) * problem.share


def shared_bytes(tile: SkinnyTile, problem: SkinnyProblem, num_sms: int) -> int:
    """Return the dynamic shared memory of a block, as its source lays it out."""
    slices, longest, share = tile.team_warps, problem.longest_slice, problem.share
    if tile.is_streamed:
        return streamed_bytes(tile.crew, tile.tiles, tile.stages, tile.splits, problem.row_blocks)
    barriers = aligned(8 * (tile.crew * TEAM_BARRIERS + tile.workers * tile.stages + slices))
    rows = aligned(2 * slices * problem.row_blocks * BLOCK_ROWS * 4)
    held = most_tiles(tile, problem, num_sms) // share
    scale_rows = (held + 6) // 8 + 1
    scales = slices * longest * share * scale_rows * 4 if problem.format == "fp8_block" else 0
    row_scales = held * share * TILE_ROWS * 4 if problem.format in ROW_SCALED else 0
    rings = tile.workers * _ring_bytes(tile, problem)
    whole = barriers + rows + rings + tile.crew * (scales + row_scales)
    if tile.source == "shared":
        whole += _activation_bytes(tile, problem)
    if not _overlaid(tile, problem):
        whole += tile.workers * _sums_bytes(tile, problem) + _exchange_bytes(tile, problem)
    return whole


def _ring_bytes(tile: SkinnyTile, problem: SkinnyProblem) -> int:
    """Return the ring of one warp."""
    return tile.stages * tile.tiles * TILE_STEP_BYTES[problem.format]


def _sums_bytes(tile: SkinnyTile, problem: SkinnyProblem) -> int:
    """Return the sums of a group of one warp."""
    return BLOCK_BYTES * tile.tiles * problem.row_blocks


def _activation_bytes(tile: SkinnyTile, problem: SkinnyProblem) -> int:
    """Return the activations that a block shares."""
    return tile.team_warps * problem.longest_slice * problem.row_blocks * STEP_X_BYTES


def _exchange_bytes(tile: SkinnyTile, problem: SkinnyProblem) -> int:
    """Return the places of a rank for the parts that all ranks of its cluster send it."""
    blocks = tile.crew * (tile.tiles // problem.share) * problem.row_blocks
    groups = 0 if tile.splits == 1 else 2 if tile.finishers else 1
    return groups * -(-blocks // tile.splits) * tile.splits * problem.share * BLOCK_BYTES


def _overlaid(tile: SkinnyTile, problem: SkinnyProblem) -> bool:
    """Say whether sums and parts take the places of rings and activations."""
    shared = tile.splits > 1 and tile.source == "shared"
    return shared and tile.finishers == 0 and problem.row_blocks > 2


def fits(tile: SkinnyTile, problem: SkinnyProblem, num_sms: int, max_shared_bytes: int) -> bool:
    """Say whether a launch is possible: its shared memory, and pairs not torn apart."""
    torn = problem.paired and tile.tiles % 2
    possible = tile.splits in CLUSTERS and tile.stages >= 2 and tile.crew >= 1
    if torn or not possible:
        return False
    if tile.is_streamed:
        held = most_tiles(tile, problem, num_sms)
        served = problem.format == "nvfp4" and problem.row_blocks > 2 and not problem.paired
        served = served and problem.num_steps >= SLICES  # no slice is empty
        return (
            served
            and held <= tile.tiles <= GROUP_TILES * tile.crew
            and tile.crew <= MOST_GROUPS
            and shared_bytes(tile, problem, num_sms) <= max_shared_bytes
        )
    if not 0 <= tile.finishers <= tile.crew or tile.warps > MOST_WARPS:
        return False
    if tile.finishers == 0 and most_tiles(tile, problem, num_sms) > tile.tiles:
        return False
    if _overlaid(tile, problem) and (
        _sums_bytes(tile, problem) > _ring_bytes(tile, problem)
        or _exchange_bytes(tile, problem) > _activation_bytes(tile, problem)
    ):
        return False
    return shared_bytes(tile, problem, num_sms) <= max_shared_bytes


def macros(tile: SkinnyTile, problem: SkinnyProblem) -> Mapping[str, int]:
    """Return the compile-time choices that a tile and a problem make in skinny_problem.cuh."""
    formats = {"nvfp4": 0, "fp8_block": 1, "e4m3_row": 2, "bf16": 3}
    return {
        "FORMAT": formats[problem.format],
        "ROW_BLOCKS": problem.row_blocks,
        "LONGEST": problem.longest_slice,
        "SPLITS": tile.splits,
        "CREW": tile.crew,
        "TILES": tile.tiles,
        "STAGES": tile.stages,
        "FINISHERS": tile.finishers,
        "SOURCE": SOURCES.index(tile.source),
    }


def _resident_clusters(tile: SkinnyTile, num_sms: int) -> int:
    """Return how many clusters run at one time: of 4 and 8 blocks, on 120 of an H200's 132 SMs.

    A cluster lies within a GPC, and what does not fill a GPC stays idle.
    """
    lost = {1: 1.0, 2: 1.0, 4: 120 / 132, 8: 120 / 132}[tile.splits]
    return int(num_sms * lost) // tile.splits
