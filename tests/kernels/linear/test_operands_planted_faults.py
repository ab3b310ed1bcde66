"""Faults of how operands reach a product; `operands_device_faults.py` tries them on a GPU."""

import pytest

from kernels.linear import skinny_launch
from kernels.linear.tile import SkinnyProblem
from kernels.linear.tile_choice import defaults
from tests.kernels.device_faults import can_be_planted
from tests.kernels.linear import operands_device_faults
from tests.kernels.linear.choices import choices

PROBLEM = SkinnyProblem(72, operands_device_faults.NUM_INPUTS, "nvfp4", 16)
TILE = defaults(PROBLEM.N, PROBLEM.Kp, PROBLEM.format, (9, 0)).upto_16


@pytest.mark.parametrize("fault", operands_device_faults.FAULTS, ids=lambda fault: fault[0])
def test_a_fault_of_the_device_code_can_be_planted(fault):
    assert can_be_planted(skinny_launch.SOURCE, fault, choices(TILE, PROBLEM))
