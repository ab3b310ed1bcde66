"""How many threads compute is the process's; scripts of tests have processes of their own."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[1]

LONGEST = (
    "kernels/linear/test_skinny_compile.py",
    "engine/quantize/test_run.py",
    "engine/dflash/test_turns.py",
    "kernels/test_checks.py",
    "kernels/attention/test_verify_compile.py",
    "engine/quantize/test_layer.py",
    "engine/quality/test_gate.py",
    "kernels/linear/test_streamed_compile.py",
    "oracle/test_oracle.py",
    "app/test_run.py",
    "app/test_cli.py",
    "app/test_resume.py",
    "oracle/test_fp8.py",
    "kernels/test_launch_code.py",
    "engine/check/test_families.py",
    "kernels/linear/test_skinny_laws.py",
    "kernels/sample/test_sample_draws.py",
    "app/test_screen_process.py",
    "kernels/attention/test_prep_cases.py",
    "engine/turn/test_any_turns.py",
)
"""Files of 20 s or more on one core, the longest first. Begun last, one of them would keep a core
busy at the end of a run while the others have nothing left to do."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest files; the rest keeps its order."""
    places = {ROOT / "tests" / name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path, len(places)))


@pytest.fixture(scope="module", autouse=True)
def same_threads_afterwards():
    """Each file of tests leaves what it found."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def one_thread(same_threads_afterwards):
    """What the engine takes for a model of the demo's size."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def run_script() -> Callable[..., object]:
    """Return a function: (script, *arguments, interpreted) -> the JSON that the script prints."""

    def run(script: Path, *arguments: str, interpreted: bool = False) -> object:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}  # noqa: TID251
        environment.pop("TRITON_INTERPRET", None)
        if interpreted:
            environment["TRITON_INTERPRET"] = "1"
        done = subprocess.run(
            [sys.executable, str(script), *arguments],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run
