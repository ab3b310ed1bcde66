"""The README's picture is what the screen looks like now."""

import asyncio
import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def picture():
    spec = importlib.util.spec_from_file_location("picture", ROOT / "scripts/picture.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_picture_is_not_stale(picture, tmp_path):
    kept = picture.PICTURE.read_text(encoding="utf-8")
    now = asyncio.run(picture.take(tmp_path))
    assert now == kept, "the screen has changed: run scripts/picture.py and look at the picture"


def test_its_recording_names_no_folder_of_the_machine_it_was_made_on(picture):
    text = picture.RECORDING.read_text(encoding="utf-8")
    assert "/home/" not in text
    assert "/tmp/" not in text
