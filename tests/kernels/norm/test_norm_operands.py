"""A program writes the operands of its own heads alone."""

from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("one_head_script.py")


@pytest.mark.parametrize("width", [128, 384])
def test_a_program_leaves_the_operands_of_the_next_head(run_script, width):
    assert run_script(SCRIPT, str(width), interpreted=True) == list(range(width // 8))
