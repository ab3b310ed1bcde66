"""Each fault of the joined launch can be planted; on a GPU the script beside shows it is seen."""

import pytest

from kernels.common import nvrtc
from kernels.mixer import launch
from tests.kernels.mixer import mixer_device_faults


@pytest.mark.parametrize("fault", mixer_device_faults.FAULTS, ids=lambda fault: fault[0])
def test_a_fault_of_the_device_code_can_be_planted(fault):
    name, old, new, _ = fault
    source = nvrtc.read_source(launch.SOURCE)
    assert (mixer_device_faults.planted(old, new) == source) == (name == "nothing changed")
