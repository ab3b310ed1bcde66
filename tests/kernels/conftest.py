"""Run a script of a test in a process of its own, with or without Triton's interpreter."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


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


@pytest.fixture(scope="session")
def plant(run_script, tmp_path_factory) -> Callable[..., dict[str, list[str]]]:
    """Return a function: (script, faults) -> what turned red, by fault, in one process."""

    def run(script: Path, faults: list[dict[str, str]]) -> dict[str, list[str]]:
        folder = tmp_path_factory.mktemp("planted")
        (folder / "faults.json").write_text(json.dumps(faults))
        return run_script(script, str(folder), str(folder / "faults.json"), interpreted=True)

    return run
