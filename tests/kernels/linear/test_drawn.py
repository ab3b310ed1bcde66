"""What laws multiply by shows which multipliers a launch takes."""

import pytest

from kernels.linear.drawn import drawn


@pytest.mark.parametrize("num_outputs", [480, 768, 992, 4864, 10752, 34816])
def test_gate_and_up_are_drawn_with_multipliers_of_their_own(num_outputs):
    """And rows of a tile, and of tiles side by side: taking another row's shows."""
    _, weight = drawn("nvfp4", 1, num_outputs, 128, "cpu")
    scales = weight.row_scales
    for apart in (1, 8, 16, 32, 64, 128, num_outputs // 2):
        assert bool((scales[apart:] != scales[:-apart]).all())
    _, weight = drawn("nvfp4", 1, num_outputs, 128, "cpu", as_stored=True)
    assert len(weight.row_scales.unique()) == 1
