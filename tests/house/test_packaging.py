"""The wheel holds every file that the program reads at run time."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DATA = {".toml", ".tcss", ".cu", ".cuh", ".json", ".jinja", ".safetensors", ".txt"}


@pytest.fixture(scope="module")
def wheel_names(tmp_path_factory) -> set[str]:
    out = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out)],
        cwd=ROOT, check=True, capture_output=True, timeout=120,
    )  # fmt: skip
    (wheel,) = out.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_the_wheel_holds_every_data_file(wheel_names):
    wanted = {
        str(path.relative_to(ROOT))
        for folder in ("app", "engine", "kernels", "profiles")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in DATA
    }
    assert wanted
    assert not wanted - wheel_names


def test_the_wheel_holds_the_licence_and_the_notice(wheel_names):
    names = {Path(name).name for name in wheel_names}
    assert {"LICENSE", "NOTICE"} <= names
