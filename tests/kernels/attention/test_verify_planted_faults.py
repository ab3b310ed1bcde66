"""The checks of attention_verify are no ornament: faults planted in its CUDA turn them red."""

from pathlib import Path

import pytest
import torch

from kernels import attention
from kernels.attention import combine_tile, verify_tile
from tests.kernels import device_faults
from tests.kernels.attention import verify_planted_script

SCRIPT = Path(__file__).with_name("verify_planted_script.py")
LAUNCHES = {
    "verify": verify_tile.default(9, 6, 90, 1024).macros(6),
    "verify_codes": verify_tile.default(9, 6, 90, 1024, 1).macros(6),
    "combine": combine_tile.default(54, 1, 132).macros(2),
}


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
    name, kernel, old, new, wanted = fault
    source = Path(attention.__file__).with_name(f"{kernel}.cu")
    macros = {**LAUNCHES[kernel], "OVERLAP": 1}
    assert device_faults.can_be_planted(source, (name, old, new, wanted), macros)
    assert wanted in verify_planted_script.checks()
