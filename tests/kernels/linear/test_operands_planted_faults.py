"""Faults of how operands reach a product; `operands_device_faults.py` tries them on a GPU."""

import pytest

from kernels.common import nvrtc
from kernels.linear import skinny_launch
from tests.kernels.device_faults import planted
from tests.kernels.linear import operands_device_faults


@pytest.mark.parametrize("fault", operands_device_faults.FAULTS, ids=lambda fault: fault[0])
def test_a_fault_of_the_device_code_can_be_planted(fault):
    name, old, new, _ = fault
    source = nvrtc.read_source(skinny_launch.SOURCE)
    assert (planted(skinny_launch.SOURCE, old, new) == source) == (name == "nothing changed")
