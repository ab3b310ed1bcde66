"""One module asks torch which GPU is here, another what a GPU can do.

So a rehearsal misses no choice of launches, and a further chip is added in one place.
"""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("kernels", "engine", "app")
ASKS = re.compile(r"get_device_capability|get_device_properties|multi_?processor_count")

ASKING = {
    "kernels/common/gpu.py": "what is here, and whose choices are made",
    "engine/machine/free_memory.py": "whether GPU and host share one memory",
    "engine/machine/facts.py": "the size of its cache and its name for NVML",
}
"""Files that ask, and what for: no launch follows from any but the first."""


COMPARES = re.compile(r"\b(?:capability|chip|choices)(?:\([^()]*\))?\[0\] *(?:[=!<>]=|[<>]|in\b)")


def test_what_a_chip_can_do_is_asked_by_name():
    """The number of a chip is compared in ``chips.py`` alone."""
    found = {
        str(path.relative_to(ROOT))
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*.py")
        if COMPARES.search(path.read_text("utf-8"))
    }
    assert found == {"kernels/common/chips.py"}


def test_no_choice_of_a_launch_asks_torch_for_the_gpu():
    found = {
        str(path.relative_to(ROOT))
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*.py")
        if ASKS.search(path.read_text("utf-8"))
    }
    assert found == ASKING.keys()
