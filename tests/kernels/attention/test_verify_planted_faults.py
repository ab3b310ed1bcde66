"""The checks of attention_verify are no ornament: faults planted in its CUDA turn them red."""

from pathlib import Path

import pytest
import torch

SCRIPT = Path(__file__).with_name("verify_planted_script.py")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="CUDA kernels need a GPU")
def test_planted_faults_turn_proofs_red(run_script):
    for name, (wanted, red) in run_script(SCRIPT).items():
        if wanted is None:
            assert red == [], name
        else:
            assert wanted in red, name
