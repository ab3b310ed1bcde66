"""A user table serves first; a damaged one is a notice and costs nothing else."""

import pytest
import torch

from engine.model import norms
from engine.tune import tiles
from engine.tune.tiles import read_table, tile_notice
from engine.tune.user_tiles import parse_table, table_path, to_toml, write_user_table
from kernels.common.family import load_families
from kernels.norm.tile import NormTile, lookup

GPU = (9, 0)
ROW = {"op": "rms_norm", "width": 5120, "num_warps": 8, "rows_per_program": 1}
MEASURED = {"date": "2026-11-29", "gpu": "NVIDIA H200", "driver": None}


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Put a text in the place of the norms' user table: ``write(text)``."""
    monkeypatch.setenv("QWEN38_PATHS_DATA", str(tmp_path))
    tiles.forget_tables()

    def call(content):
        path = table_path(tmp_path, "norm", GPU)
        path.parent.mkdir(exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_text(content)
        tiles.forget_tables()
        return path

    yield call
    tiles.forget_tables()


def entry(**fields):
    return to_toml(MEASURED, [ROW | fields])


def tile():
    return lookup(read_table("norm", GPU), "rms_norm", 5120)


def test_without_a_user_table_the_shipped_one_serves_in_silence(write):
    assert tile() == NormTile(4, 1)
    assert tile_notice(GPU) == ""


def test_a_user_table_comes_first_and_says_so(write):
    path = write(entry())
    assert tile() == NormTile(8, 1)
    assert lookup(read_table("norm", GPU), "rms_norm", 256) == NormTile(4, 4)
    said = tile_notice(GPU)
    assert said.startswith(f"norm runs with tiles of {path}")
    assert "NVIDIA H200, 2026-11-29" in said


def test_the_engine_launches_with_the_users_tile(write, monkeypatch):
    write(entry())
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda index: GPU)
    norms._tile_on.cache_clear()
    assert norms._tile_on("rms_norm", 5120, 0) == NormTile(8, 1)
    norms._tile_on.cache_clear()


def test_a_user_table_serves_a_gpu_that_has_no_shipped_one(tmp_path, write):
    write_user_table(table_path(tmp_path, "norm", (8, 0)), MEASURED, [ROW])
    assert lookup(read_table("norm", (8, 0)), "rms_norm", 5120) == NormTile(8, 1)
    assert "norm runs with tiles of" in tile_notice((8, 0))
    assert "other kernels run with default tiles" in tile_notice((8, 0))  # they have no table


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("not toml", "Expected"),
        (b"\xff\xfe", "utf-8"),
        ("a = " + "[" * 100_000, "nested too deep"),
        ("a = " + "9" * 5000, "digits"),
        ("#" * (1 << 20) + "#", "longer than 1.0 MB"),
        ("", "no [measured]"),
        ("tile = 3\n[measured]\n", "no [[tile]]"),
        ("tile = [3]\n[measured]\n", "an entry is no table"),
        (entry(op="layer_norm"), "nothing to tune called 'layer_norm'"),
        (entry(op=["rms_norm"]), "nothing to tune called"),
        (entry(num_warps=3), "none of its candidates"),
        (entry(num_warps="8"), "none of its candidates"),
        (entry(width="5120"), "does not read (TypeError)"),
        (entry(width=-5), "none of its candidates"),
        (to_toml(MEASURED, [{"op": "rms_norm", "width": 5120}]), "does not read (KeyError)"),
        (to_toml(MEASURED, [ROW, ROW]), "an entry stands twice"),
        (
            entry(arithmetic="rms_norm width=5120 2"),
            "holds 'arithmetic', which tune does not write",
        ),
    ],
)
def test_a_damaged_table_is_a_notice_and_the_shipped_one_serves(write, content, why):
    path = write(content)
    assert tile() == NormTile(4, 1)
    said = tile_notice(GPU)
    assert f"{path} is damaged" in said
    assert why in said
    assert "'qwen38 tune --family norm' writes a new one." in said
    assert len(said) < 600


OF_OTHER_TILES = {
    "op": "skinny_linear", "N": 34816, "K": 5120, "format": "nvfp4", "rows": 8, "splits": 2,
    "warps": 20, "tiles": 3, "stages": 2, "source": "registers", "buffers": 2, "per_sm": 1,
    "most_rows": 32, "arithmetic": "skinny_linear N=34816 K=5120 format=nvfp4 2x20",
}  # fmt: skip
"""An entry as a program before wrote it, whose tiles were others."""


def test_an_entry_of_a_program_before_is_refused_in_a_sentence(write, tmp_path):
    path = table_path(tmp_path, "linear", GPU)
    write_user_table(path, MEASURED, [OF_OTHER_TILES])
    tiles.forget_tables()
    assert read_table("linear", GPU) == tiles.shipped_table("linear", GPU)
    said = tile_notice(GPU)
    assert f"{path} is damaged (an entry of skinny_linear does not read" in said
    assert "'qwen38 tune --family linear' writes a new one." in said


def test_a_folder_in_the_place_of_a_table_is_damage(write, tmp_path):
    table_path(tmp_path, "norm", GPU).mkdir(parents=True)
    tiles.forget_tables()
    assert tile() == NormTile(4, 1)
    assert "no plain file" in tile_notice(GPU)


def test_a_file_in_the_place_of_the_folder_is_no_table(write, tmp_path):
    (tmp_path / "tiles").write_text("")
    tiles.forget_tables()
    assert tile() == NormTile(4, 1)
    assert tile_notice(GPU) == ""


def test_settings_that_do_not_read_are_a_notice(write, monkeypatch):
    monkeypatch.setenv("QWEN38_PATHS_DATTA", "/tmp")
    tiles.forget_tables()
    assert tile() == NormTile(4, 1)
    assert "QWEN38_PATHS_DATTA" in tile_notice(GPU)


def test_a_number_of_another_type_reaches_no_launch(write):
    write(entry(num_warps=8.0))
    found = tile()
    assert (found, type(found.num_warps)) == (NormTile(8, 1), int)


def test_what_is_written_reads_back():
    (norm,) = load_families(["norm"])
    row = ROW | {"note": 'a "quote", a \\ and \x7f\n', "us": [1.5, 2.0], "problems": []}
    table = parse_table(to_toml(MEASURED, [row]).encode(), norm.tunables)
    assert table.rows == (row,)
    assert table.measured == {"date": "2026-11-29", "gpu": "NVIDIA H200"}
