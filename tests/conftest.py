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
