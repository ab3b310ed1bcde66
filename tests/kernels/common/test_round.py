"""Device code states the rows of a round in its own language, and means the same number."""

import re
from pathlib import Path

from kernels.common.round import MAX_ROWS

KERNELS = Path(__file__).parents[3] / "kernels"
DECLARATION = re.compile(r"constexpr int MAX_ROWS = (\d+)")


def test_cuda_sources_mean_the_same_rows():
    sources = [*KERNELS.rglob("*.cu"), *KERNELS.rglob("*.cuh")]
    stated = {one.name: DECLARATION.findall(one.read_text()) for one in sources}
    stated = {name: numbers for name, numbers in stated.items() if numbers}
    assert {"walk_tile.cuh", "verify_problem.cuh"} <= set(stated)
    assert all(numbers == [str(MAX_ROWS)] for numbers in stated.values()), stated
