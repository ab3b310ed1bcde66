"""Tiles fit what they are made for, and the tables hold no tile that does not."""

import tomllib
from pathlib import Path

import pytest
import torch

from kernels.norm import NormTile, rms_norm, tile
from kernels.norm.cases import HIDDEN_WIDTHS, ODD_WIDTHS

TABLES = sorted((Path(tile.__file__).parent / "tiles").glob("*.toml"))


def rows_of(table: Path) -> list[dict]:
    return tomllib.loads(table.read_text())["tile"]


@pytest.mark.parametrize("width", [*HIDDEN_WIDTHS, *ODD_WIDTHS, 128, 8192])
def test_the_default_fits_and_every_candidate_does(width: int):
    assert tile.fits(tile.default(width), width)
    assert all(tile.fits(candidate, width) for candidate in tile.candidates(width))


@pytest.mark.parametrize("width", HIDDEN_WIDTHS)
def test_the_default_is_among_the_candidates(width: int):
    assert tile.default(width) in tile.candidates(width)


def test_the_tree_of_a_width_does_not_depend_on_the_tile():
    trees = {
        (constants["FOLDS"], constants["PAIRS"])
        for constants in (candidate.constants(5120) for candidate in tile.candidates(5120))
    }
    assert trees == {(2, 11)}


@pytest.mark.parametrize("width", [*HIDDEN_WIDTHS, *ODD_WIDTHS])
def test_the_tree_covers_the_row(width: int):
    constants = tile.default(width).constants(width)
    assert 1 << (constants["FOLDS"] + constants["PAIRS"]) == constants["LANES"] >= width


def test_the_grid_covers_every_row():
    assert [NormTile(4, 4).num_programs(rows) for rows in (1, 4, 5, 8)] == [1, 1, 2, 2]


def test_contraction_is_off_in_every_launch():
    assert NormTile(4, 1).options()["enable_fp_fusion"] is False


@pytest.mark.parametrize("table", TABLES, ids=lambda path: path.stem)
def test_table_rows_fit_are_unique_and_say_where_they_come_from(table: Path):
    rows = rows_of(table)
    keys = [(row["op"], row["width"]) for row in rows]
    assert len(keys) == len(set(keys))
    for row in rows:
        found = tile.lookup(rows, row["op"], row["width"])
        assert found is not None
        assert tile.fits(found, row["width"])
        assert row["note"].startswith(("default, not measured", "measured "))


def test_a_width_without_a_row_has_no_tile():
    assert tile.lookup(rows_of(TABLES[0]), "rms_norm", 777) is None


def test_both_gpus_have_a_table():
    assert [table.stem for table in TABLES] == ["sm_121", "sm_90"]


def test_kernels_refuse_a_tile_that_does_not_fit(monkeypatch):
    monkeypatch.setattr("kernels.common.interpreter.is_installed", lambda: True)
    x = torch.zeros(1, 8192, dtype=torch.bfloat16)
    with pytest.raises(ValueError, match=r"does not fit rows of D = 8192; .*candidates\(8192\)"):
        rms_norm(x, x[0], 1e-6, tile=NormTile(num_warps=1, rows_per_program=1))
