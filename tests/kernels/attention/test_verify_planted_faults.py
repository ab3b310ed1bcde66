"""The checks of attention_verify are no ornament: faults planted in its CUDA turn them red."""

from pathlib import Path

import pytest
import torch

from kernels import attention
from kernels.common import nvrtc
from tests.kernels import device_faults
from tests.kernels.attention import verify_planted_script

SCRIPT = Path(__file__).with_name("verify_planted_script.py")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="CUDA kernels need a GPU")
def test_planted_faults_turn_proofs_red(run_script):
    for name, (wanted, red) in run_script(SCRIPT).items():
        if wanted is None:
            assert red == [], name
        else:
            assert wanted in red, name


@pytest.mark.parametrize("fault", verify_planted_script.FAULTS, ids=lambda fault: fault[0])
def test_a_fault_can_be_planted(fault):
    """The list stays true to the sources where there is no GPU to see the faults."""
    _, kernel, old, new, wanted = fault
    source = Path(attention.__file__).with_name(f"{kernel}.cu")
    assert device_faults.planted(source, old, new) != nvrtc.read_source(source)
    assert wanted in verify_planted_script.checks()
