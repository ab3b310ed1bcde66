"""Run transformers in a process of its own, away from our checkout, once for all oracle tests."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.settings.environment import child_environment
from tests.oracle.configs import CONFIGS

CHECKOUT = Path(__file__).parents[2]
SCRIPT = Path(__file__).with_name("transformers_script.py")


@pytest.fixture(scope="session")
def run_transformers(tmp_path_factory) -> Callable[[list[dict]], None]:
    """Return a function that runs jobs of `transformers_script.py` and waits for them."""

    def run(jobs: list[dict]) -> None:
        elsewhere = tmp_path_factory.mktemp("elsewhere")
        (elsewhere / "jobs.json").write_text(json.dumps(jobs))
        environment = child_environment(
            {"PYTHONPATH": "", "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
        )
        done = subprocess.run(
            [sys.executable, str(SCRIPT), str(elsewhere / "jobs.json"), str(CHECKOUT)],
            env=environment, cwd=elsewhere, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-4000:]
        assert json.loads(done.stdout.splitlines()[-1]) == [], "the oracle imported our packages"

    return run


@pytest.fixture(scope="session")
def made(run_transformers, tmp_path_factory) -> dict[str, Path]:
    """Folders with a random checkpoint and transformers' logits, by name of the config."""
    folders = {name: tmp_path_factory.mktemp("made") for name in CONFIGS}
    jobs = [
        {**job, "folder": str(folders[name]), "seed": seed}
        for seed, (name, job) in enumerate(CONFIGS.items())
    ]
    run_transformers(jobs)
    return folders


@pytest.fixture(autouse=True)
def _as_the_oracle(one_thread):
    """Compare products under the thread count that the oracle's process has."""
