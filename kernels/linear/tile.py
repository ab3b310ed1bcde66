"""Choose how a skinny product is launched: how K is split, and what a block holds. Pure Python.

`splits` and `warps` cut K and so decide the order of every sum: they are fixed for a shape and
serve 1 to 32 rows. Everything else changes time alone.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from kernels.common.round import MAX_ROWS
from kernels.linear.formats import STEP, TILE_ROWS

BLOCK_ROWS = 8
"""Activation rows of one matrix instruction."""

BLOCK_BYTES = 4 * BLOCK_ROWS * TILE_ROWS
"""The fp32 sums of one tile and one block of rows."""

TILE_STEP_BYTES = {"nvfp4": 1152, "fp8_block": 2048, "e4m3_row": 2048, "bf16": 4096}
"""Bytes of one tile x one step in the ring, NVFP4's scales included."""

CLUSTERS = (1, 2, 4, 8)
"""Blocks that a cluster may have."""

ROW_SCALED = ("nvfp4", "e4m3_row")
"""Formats with one fp32 multiplier a row."""

BARRIER_BYTES = 1024

Source = Literal["shared", "global"]
SOURCES: tuple[Source, ...] = ("shared", "global")

SLICES = 8
"""Parts of K, one a warp."""


@dataclass(frozen=True)
class SkinnyTile:
    """One launch choice.

    Attributes:
        splits: blocks of a cluster, each with its own part of K: 1, 2, 4 or 8.
        warps: warps of a block, each with its own slice of the block's part of K.
        tiles: tiles of 16 outputs that a warp holds side by side.
        stages: steps of weight in flight for each warp, the one in use included; at least 2.
        source: where the activations stay between uses: in registers for the whole launch, or
            in global memory, read and converted anew for each group of tiles.
        buffers: groups of tiles whose sums are under way at one time, 2 to 4.
        per_sm: blocks that share a multiprocessor.
        most_rows: rows of one launch; a call of more takes two of at most 16.
    """

    splits: int
    crew: int
    tiles: int
    stages: int
    source: Source = "shared"
    buffers: int = 2
    per_sm: int = 1
    most_rows: int = MAX_ROWS

    @property
    def warps(self) -> int:
        """Warps of a team in one block."""
        return SLICES // self.splits

    @property
    def order(self) -> int:
        return SLICES

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
    def num_tiles(self) -> int:
        """Tiles of 16 outputs."""
        return -(-self.N // TILE_ROWS)

    @property
    def num_steps(self) -> int:
        """Steps of 128 inputs."""
        return self.Kp // STEP

    @property
    def row_blocks(self) -> int:
        """Blocks of 8 activation rows."""
        return -(-self.rows // BLOCK_ROWS)


ROW_CLASSES = (8, 16, 24, MAX_ROWS)
"""Most rows of the launches that share an entry of a table."""


@dataclass(frozen=True)
class SkinnyTiles:
    """The launch choices of one weight: one for each class of rows, all of one order.

    Attributes:
        upto_8: for 1 to 8 rows.
        upto_16: for 9 to 16.
        upto_32: for 25 to 32; None where two launches of at most 16 rows are faster.
        upto_24: for 17 to 24; None where `upto_32` or two launches are faster.

    Raises:
        ValueError: the orders differ, so that a row's bits would depend on its neighbours.
    """

    upto_8: SkinnyTile
    upto_16: SkinnyTile
    upto_32: SkinnyTile | None = None
    upto_24: SkinnyTile | None = None

    def __post_init__(self) -> None:
        """Refuse tiles of different orders."""
        orders = sorted({tile.order for _, tile in self.by_class()})
        if len(orders) > 1:
            raise ValueError(
                f"SkinnyTiles: the classes split K as {orders}, expected one order for all rows; "
                "give them the splits and warps of upto_8"
            )

    @property
    def order(self) -> tuple[int, int]:
        """What decides the order of a sum: splits and warps."""
        return self.upto_8.order

    def by_class(self) -> tuple[tuple[int, SkinnyTile], ...]:
        """Return the classes that have a tile, by the most rows that each serves."""
        tiles = (self.upto_8, self.upto_16, self.upto_24, self.upto_32)
        pairs = zip(ROW_CLASSES, tiles, strict=True)
        return tuple((rows, tile) for rows, tile in pairs if tile is not None)

    def serving(self, rows: int) -> SkinnyTile | None:
        """Return the tile of a launch of so many rows; None where they take two launches."""
        tile = next((tile for most, tile in self.by_class() if rows <= most), None)
        return tile if tile is not None and rows <= tile.most_rows else None

    def launches(self, rows: int) -> tuple[tuple[int, SkinnyTile], ...]:
        """Cut 1 to 32 rows into launches: rows and tile of each, in order."""
        tile = self.serving(rows)
        if tile is not None:
            return ((rows, tile),)
        left = rows - ROW_CLASSES[1]
        return (ROW_CLASSES[1], self.upto_16), (left, self.upto_8 if left <= 8 else self.upto_16)


def num_teams(tile: SkinnyTile, problem: SkinnyProblem, num_sms: int) -> int:
    """Return the clusters of a launch, which share the tiles of the weight evenly."""
    share = 2 if problem.paired else 1
    crews = -(-problem.num_tiles // share // tile.crew)
    return tile.crew * max(1, min(crews, _resident_clusters(tile, num_sms)))


def longest_slice(tile: SkinnyTile, problem: SkinnyProblem) -> int:
    """Return the steps of the longest slice of K."""
    return -(-problem.num_steps // SLICES)


def shared_bytes(tile: SkinnyTile, problem: SkinnyProblem, num_sms: int) -> int:
    """Return the dynamic shared memory of a block, as skinny.cu lays it out."""
    share = 2 if problem.paired else 1
    teams, longest = num_teams(tile, problem, num_sms), longest_slice(tile, problem)
    most_tiles = -(-(problem.num_tiles // share) // teams) * share
    ring = tile.warps * tile.stages * tile.tiles * TILE_STEP_BYTES[problem.format]
    blocks = tile.tiles // share * problem.row_blocks
    homed = -(-blocks // tile.splits) * tile.splits * share if tile.splits > 1 else 0
    sums = BLOCK_BYTES * (tile.buffers * tile.warps * tile.tiles * problem.row_blocks + 2 * homed)
    scale_rows = share * (-(-most_tiles // share * TILE_ROWS // STEP) + 1)
    scales = tile.warps * longest * scale_rows * 4 if problem.format == "fp8_block" else 0
    row_scales = most_tiles * TILE_ROWS * 4 if problem.format in ROW_SCALED else 0
    team = ring + sums + _aligned(scales + row_scales)
    rows = _aligned(2 * tile.warps * problem.row_blocks * BLOCK_ROWS * 4)
    x = tile.warps * longest * problem.row_blocks * 2048 if tile.source == "shared" else 0
    return BARRIER_BYTES + x + rows + tile.crew * team


def _aligned(num_bytes: int) -> int:
    return -(-num_bytes // 128) * 128


def fits(tile: SkinnyTile, problem: SkinnyProblem, num_sms: int, max_shared_bytes: int) -> bool:
    """Say whether a launch is possible: its shared memory, and pairs not torn apart."""
    torn = problem.paired and tile.tiles % 2
    barriers = 8 * tile.crew * (2 + tile.warps * tile.stages)
    possible = tile.splits in CLUSTERS and tile.crew <= 15 and tile.stages >= 2 and tile.crew*tile.warps<=32
    if torn or not possible or barriers > BARRIER_BYTES:
        return False
    return shared_bytes(tile, problem, num_sms) <= max_shared_bytes


def macros(tile: SkinnyTile, problem: SkinnyProblem) -> Mapping[str, int]:
    """Return the compile-time choices that a tile and a problem make in skinny.cu."""
    formats = {"nvfp4": 0, "fp8_block": 1, "e4m3_row": 2, "bf16": 3}
    return {
        "FORMAT": formats[problem.format],
        "ROW_BLOCKS": problem.row_blocks,
        "TILES": tile.tiles,
        "SPLITS": tile.splits,
        "CREW": tile.crew,
        "STAGES": tile.stages,
        "BUFFERS": tile.buffers,
        "LONGEST": longest_slice(tile, problem),
        "SOURCE": SOURCES.index(tile.source),
        "MIN_BLOCKS": tile.per_sm,
    }


def _resident_clusters(tile: SkinnyTile, num_sms: int) -> int:
    """Return how many clusters run at one time: those of 4 and 8 leave part of a GPC idle."""
    lost = {1: 1.0, 2: 1.0, 4: 120 / 132, 8: 120 / 132}[tile.splits]
    return int(num_sms * tile.per_sm * lost) // tile.splits
