"""Plant faults by a script of a test, in a process whose kernels are interpreted."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def plant(run_script, tmp_path_factory) -> Callable[..., dict[str, list[str]]]:
    """Return a function: (script, faults) -> what turned red, by fault, in one process."""

    def run(script: Path, faults: list[dict[str, str]]) -> dict[str, list[str]]:
        folder = tmp_path_factory.mktemp("planted")
        (folder / "faults.json").write_text(json.dumps(faults))
        return run_script(script, str(folder), str(folder / "faults.json"), interpreted=True)

    return run
