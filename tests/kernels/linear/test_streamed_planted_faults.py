"""Faults of products past which activations stream; `streamed_device_faults.py` tries them."""

import pytest

from kernels.linear import skinny_launch
from kernels.linear.streamed_laws import STREAMED_LAWS
from kernels.linear.tile import SkinnyProblem
from kernels.linear.tile_choice import candidates
from tests.kernels.device_faults import can_be_planted
from tests.kernels.linear import streamed_device_faults as script
from tests.kernels.linear.choices import choices


@pytest.mark.parametrize("fault", script.FAULTS, ids=lambda fault: fault[0])
def test_a_fault_of_the_device_code_can_be_planted(fault):
    (N, Kp), (rows,) = script.PAIR_SIZES[0], script.ROWS
    problem = SkinnyProblem(N, Kp, "nvfp4", rows, fault[3] == script.PAIRS)
    tile = next(one for one in candidates(problem, (9, 0)) if one.is_streamed)
    assert can_be_planted(skinny_launch.STREAMED_SOURCE, fault, choices(tile, problem))


def test_all_that_a_fault_may_need_is_launched():
    """Every number of blocks that share K, and tiles that are left over."""
    assert {law.name for law in STREAMED_LAWS} == {script.SUMS, script.PAIRS}
    assert splits_of(script.SIZES, paired=False) == {(1, 0), (2, 0), (4, 0), (8, 0)}
    assert {(1, 0), (1, 4)} < splits_of(script.PAIR_SIZES, paired=True)


def splits_of(sizes: tuple[tuple[int, int], ...], *, paired: bool) -> set[tuple[int, int]]:
    return {
        (tile.splits, tile.finishers)
        for N, Kp in sizes
        for rows in script.ROWS
        for tile in candidates(SkinnyProblem(N, Kp, "nvfp4", rows, paired), (9, 0))
        if tile.is_streamed
    }
