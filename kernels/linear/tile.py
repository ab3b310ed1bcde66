"""Describe how a skinny product is launched: who shares K, and what a warp holds. Pure Python.

No field of a tile changes a bit: K is always cut in `SLICES`, whose sums are added as one tree.
What a launch takes of a GPU, `tile_room` counts.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from kernels.common.round import MAX_ROWS
from kernels.linear.formats import STEP, TILE_ROWS
from kernels.linear.streamed import BRINGERS, GROUP_TILES, SLICES

BLOCK_ROWS = 8
"""Activation rows of one matrix instruction."""

CLUSTERS = (1, 2, 4, 8)
"""Blocks that a cluster may have; each divides `SLICES`."""

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
            where `crew` is a block's warpgroups and `tiles` what they hold together; of a pair a
            tile is then 8 outputs of gate and the same 8 of up.
        finishers: warps of a block beside those that multiply, which finish all groups but the last
            of their teams; 0 where no team has more than one. Of a streamed launch the four that
            bring activations, or 0: every block has `tiles` of a pair, and what is left over, by
            fours, is multiplied slice by slice by different blocks.
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
