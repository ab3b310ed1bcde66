"""Choose how a norm kernel is launched: warps and rows a program. Pure Python.

No choice here changes a bit of the result (`common/exact.py` says why), so a tile is chosen by
time alone and a sweep has nothing to filter.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kernels.common.launch_options import launch_options

FOLD_LANES = 2048
"""Lanes left where the sum stops halving the row and adds neighbours: 8 bf16 of a 16-byte load x
256 threads, so that with 8 warps each fold stays within a thread."""

MAX_ELEMENTS_PER_THREAD = 64
"""Row elements a thread may hold: three fp32 copies of 64 are about the register file's limit."""


@dataclass(frozen=True)
class NormTile:
    """One launch choice of a norm kernel.

    Attributes:
        num_warps: warps a program, a power of two.
        rows_per_program: rows a program normalises side by side, a power of two.
    """

    num_warps: int
    rows_per_program: int

    def constants(self, width: int) -> dict[str, int]:
        """Return the kernel's compile-time constants for rows of a width."""
        lanes = _lanes(width)
        folded = min(lanes, FOLD_LANES)
        return {
            "WIDTH": width,
            "LANES": lanes,
            "ROWS": self.rows_per_program,
            "FOLDS": (lanes // folded).bit_length() - 1,
            "PAIRS": folded.bit_length() - 1,
        }

    def options(self, *, overlap: bool = False) -> dict[str, int | bool]:
        """Return Triton's launch options, as `launch_options` says."""
        return launch_options(self.num_warps, overlap=overlap)

    def num_programs(self, num_rows: int) -> int:
        """Return the size of the launch grid."""
        return -(-num_rows // self.rows_per_program)


def fits(tile: NormTile, width: int) -> bool:
    """Say whether a tile's block fits the registers of its threads."""
    return _elements(tile, width) <= MAX_ELEMENTS_PER_THREAD * 32 * tile.num_warps


def candidates(width: int) -> tuple[NormTile, ...]:
    """List the tiles worth timing for a width: those that fit and give every thread an element."""
    tiles = (
        NormTile(num_warps, rows_per_program)
        for num_warps in (1, 2, 4, 8, 16)
        for rows_per_program in ((1, 2, 4, 8, 16) if width <= 512 else (1,))
    )
    return tuple(
        tile
        for tile in tiles
        if fits(tile, width) and _elements(tile, width) >= 32 * tile.num_warps
    )


def default(width: int) -> NormTile:
    """Return the tile for a width that no table holds."""
    if width > 2560:
        return NormTile(num_warps=8, rows_per_program=1)
    if width > 512:
        return NormTile(num_warps=4, rows_per_program=1)
    return NormTile(num_warps=4, rows_per_program=4)


def lookup(rows: Iterable[Mapping[str, Any]], op: str, width: int) -> NormTile | None:
    """Find a function's tile in the rows of a tile table; None where it has no row.

    Args:
        rows: the `tile` tables of `tiles/sm_*.toml`, as parsed.
        op: "rms_norm", "add_rms_norm" or "gated_rms_norm".
        width: elements of a row.
    """
    for row in rows:
        if (row["op"], row["width"]) == (op, width):
            return NormTile(row["num_warps"], row["rows_per_program"])
    return None


def _elements(tile: NormTile, width: int) -> int:
    """Return the elements of a program's block."""
    return _lanes(width) * tile.rows_per_program


def _lanes(width: int) -> int:
    """Return the power of two that holds a row."""
    return 1 << (width - 1).bit_length()
