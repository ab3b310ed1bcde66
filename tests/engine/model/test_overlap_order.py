"""What kernels read before their predecessor has ended was written by launches that had."""

from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("overlap_script.py")
CONVOLUTION = {"9.0": "conv_rows", "12.1": "conv_gates_kernel"}


@pytest.mark.parametrize("capability", CONVOLUTION)
def test_nothing_is_read_before_it_is_written(capability, run_script):
    found = run_script(SCRIPT, capability)
    assert found["looked_at"].keys() == {"add_norm", "mixer_rows", CONVOLUTION[capability]}
    assert found["too_early"] == []


def test_a_product_that_lets_go_at_once_is_noticed(run_script):
    early = run_script(SCRIPT, "12.1", "skinny")["too_early"]
    readers = {one.split(": ")[1].split()[0] for one in early}
    assert readers == {"add_norm", "mixer_rows", "conv_gates_kernel"}
