"""Plant one fault at a time in products past which activations stream, print what turns red.

PYTHONPATH=. python tests/kernels/linear/streamed_device_faults.py

`test_streamed_planted_faults.py` keeps the list true to the source where there is no GPU.
"""

import sys
from functools import partial

import torch

from kernels.common.chips import has_wgmma
from kernels.linear import skinny_launch, streamed_laws
from kernels.linear.streamed_laws import STREAMED_LAWS
from tests.kernels.device_faults import Fault, try_all
from tests.kernels.linear.planting import plant

SUMS, PAIRS = (law.name for law in STREAMED_LAWS)

SIZES, PAIR_SIZES, ROWS = ((5120, 1024),), ((10752, 1024),), (32,)
"""What the laws are tried on here: 1 to 8 blocks share K, and of pairs tiles are left over."""

FAULTS: list[Fault] = [
    ("nothing changed", "float sum[SUMS] = {};", "float sum[SUMS] = {};", None),
    ("every slice by the factors of the first", "places.unscale() + i * ROW_BLOCKS * 8, lane",
     "places.unscale(), lane", SUMS),
    ("factors not looked at", "= !PREPARED || __any_sync(~0u, factor != 1.0f);", "= !PREPARED;",
     SUMS),
    ("the slice before forgotten", "= __fadd_rn(before[i], sum[i]);", "= sum[i];", SUMS),
    ("the first of two twice as they are", "= __fadd_rn(before[i], sum[i]);",
     "= __fadd_rn(before[i], before[i]);", SUMS),
    ("four slices as two", "if (WARPS > 2 && slice % 4 == 3) add_kept(", "if (false) add_kept(",
     SUMS),
    ("eight slices as four", "if (WARPS > 4 && slice == 7) add_kept(", "if (false) add_kept(",
     SUMS),
    ("half the ranks added", "tree_sum<SPLITS>(parts + output * 8",
     "tree_sum<(SPLITS + 1) / 2>(parts + output * 8", SUMS),
    ("the parts of all ranks in one place", "(block / SPLITS * SPLITS + rank)",
     "(block / SPLITS * SPLITS)", SUMS),
    ("every rank takes the first slices", "own(rank * WARPS)", "own(0)", SUMS),
    ("every cluster brings the first tiles", "(first + tile) * (16 / PAIR)", "tile * (16 / PAIR)",
     SUMS),
    ("scales of one tile for all", "CODES_BYTES + tile * RUN_BYTES + lane * 4",
     "CODES_BYTES + lane * 4", SUMS),
    ("operands of the first rows for all", "(block * p.steps + step) * STEP_VECTORS",
     "(step) * STEP_VECTORS", SUMS),
    ("up by the multiplier of gate", "of_up = scales[8 + g]", "of_up = scales[g]", PAIRS),
    ("outputs not turned", "two = transposed(two);", ";", PAIRS),
    ("scales of the first tile of a run for both", "+ (first + tile) % 2 * 2", "", PAIRS),
    ("half the slices of tiles that are left over", "tree_of_slices<SLICES>(left_sums",
     "tree_of_slices<SLICES / 2>(left_sums", PAIRS),
    ("all their slices in one place", "left.slice, tile, r, lane", "0, tile, r, lane", PAIRS),
    ("operands' largest not told", "if (t == 0) tell_largest(p.next, row, output, most)",
     "if (false) tell_largest(p.next, row, output, most)", PAIRS),
]  # fmt: skip


def broken(wanted: str | None) -> list[str]:
    """The laws that are red, of the one that must see a fault, or of both."""
    tried = [law for law in STREAMED_LAWS if wanted in (None, law.name)]
    return [law.name for law in tried if law.broken("cuda")]


if __name__ == "__main__":
    if not has_wgmma(torch.cuda.get_device_capability()):
        sys.exit("activations stream past on sm_90 alone: run this on an H100 or H200")
    streamed_laws.STREAMED_SIZES, streamed_laws.STREAMED_PAIRS = SIZES, PAIR_SIZES
    streamed_laws.STREAMED_ROWS = ROWS
    sys.exit(
        try_all(
            FAULTS,
            skinny_launch.STREAMED_SOURCE,
            list,
            partial(plant, skinny_launch.STREAMED_SOURCE),
            broken,
        )
    )
