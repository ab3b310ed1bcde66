"""Tile tables reach the kernels of the GPU they were measured on, and a missing one is told."""

import pytest
import torch

from engine.model import norms
from engine.tune.tiles import TABLES, forget_tables, read_table, tile_notice
from kernels.norm.tile import NormTile, lookup


@pytest.fixture(autouse=True)
def no_user_tables(tmp_path, monkeypatch):
    """Whatever the machine's owner has tuned."""
    monkeypatch.setenv("QWEN38_PATHS_DATA", str(tmp_path))
    forget_tables()
    yield
    forget_tables()


@pytest.mark.parametrize("capability", TABLES)
def test_every_known_gpu_has_a_table_and_is_told_when_nobody_measured_it(capability):
    assert lookup(read_table("norm", capability), "rms_norm", 5120) is not None
    notice = tile_notice(capability)
    assert notice == "" if capability == (9, 0) else "defaults that nobody measured" in notice


def test_a_gpu_without_a_table_takes_defaults_and_says_so():
    assert read_table("norm", (8, 0)) == ()
    assert "sm_80" in tile_notice((8, 0))


def test_the_tables_tile_is_passed_to_the_kernel(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda index: (9, 0))
    norms._tile_on.cache_clear()
    assert norms._tile_on("rms_norm", 5120, 0) == NormTile(4, 1)
    norms._tile_on.cache_clear()


def test_a_cpu_needs_no_tile():
    assert norms._tile("rms_norm", torch.empty(1, 5120)) is None
