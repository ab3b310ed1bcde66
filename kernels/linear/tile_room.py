"""Count what a skinny launch takes of a GPU: teams, and the memory of a block. Pure Python."""

from kernels.linear.formats import TILE_ROWS
from kernels.linear.streamed import (
    GROUP_TILES,
    MOST_GROUPS,
    SLICES,
    STEP_X_BYTES,
    aligned,
    streamed_bytes,
)
from kernels.linear.tile import BLOCK_ROWS, CLUSTERS, SkinnyProblem, SkinnyTile

BLOCK_BYTES = 4 * BLOCK_ROWS * TILE_ROWS
"""The fp32 sums of one tile and one block of rows."""

TILE_STEP_BYTES = {"nvfp4": 1152, "fp8_block": 2048, "e4m3_row": 2048, "bf16": 4096}
"""Bytes of one tile x one step in the ring, NVFP4's scales included."""

ROW_SCALED = ("nvfp4", "e4m3_row")
"""Formats with one fp32 multiplier a row."""

TEAM_BARRIERS = 4
"""A team's barriers beside those of its rings: two for parts that come, one for sums that are
stored, one for sums that have been read."""

MOST_WARPS = 32
"""Warps that a block may have."""


def num_teams(tile: SkinnyTile, problem: SkinnyProblem, num_sms: int) -> int:
    """Return the teams of a launch, whole crews, which share the tiles of the weight evenly.

    Of a streamed launch they are its clusters.
    """
    if tile.is_streamed:
        whole = problem.num_tiles // (tile.tiles if tile.finishers else 1)
        return max(1, min(whole, _resident_clusters(tile, num_sms)))
    crews = -(-problem.num_tiles // problem.share // tile.crew)
    return tile.crew * max(1, min(crews, _resident_clusters(tile, num_sms)))


def most_tiles(tile: SkinnyTile, problem: SkinnyProblem, num_sms: int) -> int:
    """Return the tiles of the team that has most."""
    if tile.is_streamed and tile.finishers:
        return tile.tiles
    teams, share = num_teams(tile, problem, num_sms), 1 if tile.is_streamed else problem.share
    return -(-(problem.num_tiles // share) // teams) * share


def shared_bytes(tile: SkinnyTile, problem: SkinnyProblem, num_sms: int) -> int:
    """Return the dynamic shared memory of a block, as its source lays it out."""
    slices, longest, share = tile.team_warps, problem.longest_slice, problem.share
    if tile.is_streamed:
        return streamed_bytes(
            tile.crew, tile.tiles, tile.stages, tile.splits, problem.row_blocks,
            paired=problem.paired, left=tile.finishers > 0,
        )  # fmt: skip
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
    torn = problem.paired and not tile.is_streamed and tile.tiles % 2
    possible = tile.splits in CLUSTERS and tile.stages >= 2 and tile.crew >= 1
    if torn or not possible:
        return False
    if tile.is_streamed:
        held = most_tiles(tile, problem, num_sms)
        served = problem.format == "nvfp4" and problem.row_blocks > 2
        served = served and problem.num_steps >= SLICES  # no slice is empty
        return (
            served
            and _is_shared_out(tile, problem, num_sms)
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


def left_over(tile: SkinnyTile, problem: SkinnyProblem, num_sms: int) -> int:
    """Return the tiles of a streamed launch that no block has whole."""
    if not (tile.is_streamed and tile.finishers):
        return 0
    return problem.num_tiles - num_teams(tile, problem, num_sms) * tile.tiles


def _is_shared_out(tile: SkinnyTile, problem: SkinnyProblem, num_sms: int) -> bool:
    """Say whether a streamed launch's blocks have all tiles, what is left over by fours."""
    if not tile.finishers:
        return True
    fours, rest = divmod(left_over(tile, problem, num_sms), GROUP_TILES)
    possible = problem.paired and tile.splits == 1 and tile.finishers == GROUP_TILES
    possible = possible and tile.tiles >= GROUP_TILES  # a stage of the ring has room for four
    return possible and not rest and 0 < fours * SLICES <= num_teams(tile, problem, num_sms)


def _resident_clusters(tile: SkinnyTile, num_sms: int) -> int:
    """Return how many clusters run at one time: of 4 and 8 blocks, on 120 of an H200's 132 SMs.

    A cluster lies within a GPC, and what does not fill a GPC stays idle.
    """
    lost = {1: 1.0, 2: 1.0, 4: 120 / 132, 8: 120 / 132}[tile.splits]
    return int(num_sms * lost) // tile.splits
