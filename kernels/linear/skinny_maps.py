"""Describe a weight to the copy engine: which bytes a box of its codes or scales has."""

from collections.abc import Callable

from kernels.common.cuda_kernel import TensorMap, byte_map
from kernels.linear.formats import STEP, TILE_ROWS
from kernels.linear.streamed import GROUP_TILES, RUN_BYTES, num_runs
from kernels.linear.tile import SkinnyTile
from kernels.linear.weight import Nvfp4Weight, Weight, format_name, padded_inputs

PIECE_BYTES = 64
"""Bytes of a row that lie side by side in shared memory; lanes then read it without a conflict."""


def maps_for(tile: SkinnyTile, weight: Weight, share: int) -> tuple[TensorMap, ...]:
    """Return the maps that a launch takes, each made once for a weight's place in memory.

    Codes and scale runs of a group's tiles; of a launch past which activations stream codes of four
    tiles, codes of one, and the runs of all that a block has.

    Args:
        tile: launch choice.
        weight: on a GPU.
        share: halves of the weight: 2 where gate and up end in one output.
    """
    if not tile.is_streamed:
        tiles = tile.tiles // share
        return _codes_map(weight, tiles * TILE_ROWS, share), _runs_map(weight, tiles, share)
    rows, runs = TILE_ROWS // share, num_runs(tile.tiles, paired=share == 2) // share
    four, one = (_codes_map(weight, tiles * rows, share) for tiles in (GROUP_TILES, 1))
    return four, one, _runs_map(weight, runs, share)


def _codes_map(weight: Weight, rows: int, share: int) -> TensorMap:
    """Describe codes to the copy engine.

    A box is a step of some rows: of each half of a pair, of each 64 bytes of the step, all rows.

    Args:
        weight: N rows of Kp inputs.
        rows: in each half of a box.
        share: halves: 2 where gate and up end in one output.
    """

    def describe() -> TensorMap:
        codes = weight.codes
        of_half, row_bytes = codes.shape[0] // share, codes.shape[1] * codes.element_size()
        step_bytes = STEP * row_bytes // padded_inputs(weight)
        return byte_map(
            codes.data_ptr(),
            (PIECE_BYTES, of_half, row_bytes // PIECE_BYTES, share),
            (row_bytes, PIECE_BYTES, of_half * row_bytes),
            (PIECE_BYTES, rows, step_bytes // PIECE_BYTES, share),
        )

    return _described(weight, ("codes", rows, share), describe)


def _runs_map(weight: Weight, tiles: int, share: int) -> TensorMap:
    """Describe scale runs to the copy engine: a box is a step of some tiles, of each half.

    Formats without runs get a map that is never read.
    """
    if not isinstance(weight, Nvfp4Weight):
        return _codes_map(weight, tiles * TILE_ROWS, share)
    runs = weight.scale_runs

    def describe() -> TensorMap:
        of_half, row_bytes = runs.shape[0] // share, runs.shape[1] * RUN_BYTES
        return byte_map(
            runs.data_ptr(),
            (row_bytes, of_half, share),
            (row_bytes, of_half * row_bytes),
            (RUN_BYTES, tiles, share),
        )

    return _described(weight, ("runs", tiles, share), describe)


def _described(weight: Weight, box: object, describe: Callable[[], TensorMap]) -> TensorMap:
    """Return a map, made once for each place in memory."""
    # both places: a model that is freed leaves its codes' address to one with scales elsewhere
    places = tuple(one.data_ptr() for one in weight.tensors()[:2])
    key = (format_name(weight), places, weight.codes.shape, box)
    found = _maps.get(key)
    if found is None:
        found = _maps[key] = describe()
    return found


_maps: dict[object, TensorMap] = {}
