"""Choose how a product of many rows is launched: the tile, its pipeline, slices of K. Pure Python.

`splits` and `fold_scale` decide bits; everything else changes time alone. A row's bits are the
same in all calls that use the same two.
"""

from dataclasses import asdict, dataclass, replace
from typing import Any

MAX_ACCUMULATORS = 128
"""fp32 sums a thread may hold; decoded weights and addresses need the other half of a thread's
255 registers."""


@dataclass(frozen=True)
class MiddleTile:
    """One launch choice.

    Attributes:
        tile_n: outputs of a program: 64, which is the matrix instruction of four warps on Hopper,
            128 or 256.
        tile_t: rows of a program: 16 to 256, a power of two.
        num_warps: warps of a program: 4 or 8.
        num_stages: steps in flight, the one in use included.
        splits: slices of K for the outputs from `whole` on, each slice a program of its own; a
            second launch adds them in order.
        whole: first outputs, a multiple of tile_n, whose K is not split: those that fill the
            multiprocessors evenly, so that the rest does not cost a round of its own.
        fold_scale: of a block format, round code x scale to bf16, as the expanded weight does,
            instead of scaling the fp32 sum of each step.
        tensor_map: let the copy engine load the activations, where their rows start at multiples
            of 16 bytes; elsewhere threads do. Changes no bit.
    """

    tile_n: int
    tile_t: int
    num_warps: int = 8
    num_stages: int = 3
    splits: int = 1
    whole: int = 0
    fold_scale: bool = True
    tensor_map: bool = False

    def as_row(self) -> dict[str, Any]:
        """Return the fields as a row of a tile table."""
        return asdict(self)

    @property
    def order(self) -> tuple[int, int, bool]:
        """What decides the bits of a sum: splits, whole and fold_scale."""
        return self.splits, self.whole if self.splits > 1 else 0, self.fold_scale

    def constants(self, name: str, num_inputs: int, mapped: bool) -> dict[str, Any]:
        """Return the kernel's compile-time constants.

        Args:
            name: the weight's format.
            num_inputs: K before padding.
            mapped: the activations come through a tensor map.
        """
        return {
            "FORMAT": name,
            "TILE_N": self.tile_n,
            "TILE_T": self.tile_t,
            "SPLIT": self.splits > 1,
            "FOLD_SCALE": self.fold_scale,
            "TENSOR_MAP": mapped,
            "MASK_INPUTS": num_inputs % 128 != 0,
        }

    def slice_constants(self, name: str) -> dict[str, Any]:
        """Return the compile-time constants of the kernel that adds slices."""
        return {"FORMAT": name, "SLICES": self.splits}

    def options(self) -> dict[str, int]:
        """Return Triton's launch options."""
        return {"num_warps": self.num_warps, "num_stages": self.num_stages}

    def num_programs(self, num_rows: int, num_outputs: int) -> int:
        """Return the size of the launch grid."""
        num_whole = self.whole // self.tile_n if self.splits > 1 else 0
        num_split = -(-num_outputs // self.tile_n) - num_whole
        return -(-num_rows // self.tile_t) * (num_whole + num_split * self.splits)


def fits(tile: MiddleTile, name: str, num_outputs: int, num_steps: int) -> bool:
    """Say whether a tile can compute a product at all.

    Args:
        tile: the launch choice.
        name: the weight's format. Scaling the sums of a block format needs one block a tile.
        num_outputs: N; some outputs must be left to split.
        num_steps: Kp / 128; every slice must hold a step.
    """
    shape_is_good = (
        tile.tile_n in (64, 128, 256)
        and tile.tile_t in (16, 32, 64, 128, 256)
        and tile.num_warps in (4, 8)
        and 1 <= tile.num_stages <= 8
        and tile.tile_n * tile.tile_t <= MAX_ACCUMULATORS * 32 * tile.num_warps
    )
    one_block = name != "fp8_block" or tile.fold_scale or tile.tile_n <= 128
    return shape_is_good and one_block and _split_is_good(tile, num_outputs, num_steps)


def _split_is_good(tile: MiddleTile, num_outputs: int, num_steps: int) -> bool:
    if tile.splits < 1:
        return False
    last_slice_starts = (tile.splits - 1) * -(-num_steps // tile.splits)
    return last_slice_starts < num_steps and (
        tile.whole % tile.tile_n == 0 and 0 <= tile.whole < num_outputs
    )


@dataclass(frozen=True)
class Machine:
    """What the choice of a tile needs to know of a GPU.

    Attributes:
        num_sms: multiprocessors.
        shapes: (rows up to, tile), fewest rows first; the last serves all above.
    """

    num_sms: int
    shapes: tuple[tuple[int, MiddleTile], ...]


MACHINES: dict[int, Machine] = {
    90: Machine(
        132,
        (
            (64, MiddleTile(64, 64, 4, 4, fold_scale=False)),
            (128, MiddleTile(64, 128, 4, 3, fold_scale=False, tensor_map=True)),
            (256, MiddleTile(128, 256, 8, 3, tensor_map=True)),
            # three tiles of 128 rows, where two of 256 would compute a quarter for nothing.
            (384, MiddleTile(64, 128, 4, 3, fold_scale=False, tensor_map=True)),
            (512, MiddleTile(128, 256, 8, 3, tensor_map=True)),
        ),
    ),
    121: Machine(
        48,
        (
            (64, MiddleTile(128, 64, 8, 3, fold_scale=False)),
            (128, MiddleTile(128, 128, 8, 2, fold_scale=False)),
        ),
    ),
}
"""Tiles by compute capability. 90: the fastest of a sweep over four shapes and eleven row counts on
an H200, 2026-11-29, Triton 3.6; a tile of 256 rows has no registers for the sums of one step, so
it folds the scale. 121: compiled, not measured."""

MIDDLE_ROWS: dict[int, tuple[int, int]] = {90: (33, 512), 121: (33, 1024)}
"""First and last row count that this path is for: below, the skinny kernel; above, expansion and
the library.

90: at 64 rows it takes half the time of two skinny slices; at 256 rows it leads expansion by 1.3 to
1.6 times, at 512 by 1.0 to 1.1, at 768 it is level (34816 x 5120 and 5120 x 17408). 121: a guess,
not measured."""

SPLITS = (1, 2, 3, 4, 5, 6, 8)
SLICE_STEPS = 3
"""Steps' worth of time that a slice takes to start and to write its sums."""

BYTES_PER_STEP = 6_800_000
"""Bytes of sums that memory moves in the time of a step, about 1.7 us on an H200."""


def default(
    name: str, num_outputs: int, num_steps: int, num_rows: int, capability: int = 90
) -> MiddleTile:
    """Return the tile for a product that no table holds.

    Args:
        name: the weight's format.
        num_outputs: N.
        num_steps: Kp / 128.
        num_rows: T.
        capability: a key of `MACHINES`, as `measured_like` gives it.
    """
    machine = MACHINES[capability]
    fitting = [tile for rows, tile in machine.shapes if num_rows <= rows]
    tile = _for_format(fitting[0] if fitting else machine.shapes[-1][1], name)
    return min(
        _divisions(tile, num_outputs, num_steps, num_rows, machine.num_sms),
        key=lambda pair: (pair[0], pair[1].splits),
    )[1]


def candidates(
    name: str, num_outputs: int, num_steps: int, num_rows: int, capability: int = 90
) -> tuple[MiddleTile, ...]:
    """List the tiles worth timing for a product: every shape, each with its best divisions of K.

    Args: see `default`.
    """
    machine = MACHINES[capability]
    found: dict[MiddleTile, None] = {}
    for _, shape in machine.shapes:
        tile = _for_format(shape, name)
        divisions = _divisions(tile, num_outputs, num_steps, num_rows, machine.num_sms)
        for _, divided in sorted(divisions, key=lambda pair: (pair[0], pair[1].splits))[:3]:
            found[divided] = None
    return tuple(found)


def _for_format(tile: MiddleTile, name: str) -> MiddleTile:
    """Drop what a format does not have, and a stage where 16-bit weights fill shared memory."""
    if name == "bf16" and tile.num_stages > 2:
        tile = replace(tile, num_stages=2)
    return tile if name == "fp8_block" else replace(tile, fold_scale=True)


def _divisions(
    tile: MiddleTile, num_outputs: int, num_steps: int, num_rows: int, num_sms: int
) -> list[tuple[float, MiddleTile]]:
    """List the ways to split K with their time in steps.

    Programs run in waves, one for each multiprocessor (two where a program has four warps), and a
    wave lasts as long as its longest program. Outputs that fill whole waves stay whole.
    """
    slots = num_sms * (8 // tile.num_warps)
    row_tiles, columns = -(-num_rows // tile.tile_t), -(-num_outputs // tile.tile_n)
    waves = row_tiles * columns // slots
    kept = waves * slots // row_tiles if waves * slots // row_tiles < columns else 0
    found = []
    for splits in SPLITS:
        for whole in {0, kept}:
            divided = replace(tile, splits=splits, whole=whole * tile.tile_n if splits > 1 else 0)
            if not _split_is_good(divided, num_outputs, num_steps):
                continue
            if splits == 1:
                cost = float(-(-columns * row_tiles // slots) * num_steps)
            else:
                rest = (columns - whole) * row_tiles * splits
                cost = -(-whole * row_tiles // slots) * num_steps
                cost += -(-rest // slots) * (-(-num_steps // splits) + SLICE_STEPS)
                cost += rest * tile.tile_n * tile.tile_t * 8 / BYTES_PER_STEP
            found.append((cost, divided))
    return found
