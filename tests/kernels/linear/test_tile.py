"""Launch choices fit what they are chosen for, and count what the source uses."""

import re
from collections.abc import Mapping
from dataclasses import asdict, replace
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import pytest

from kernels.common.shared_memory import MAX_SHARED_BYTES
from kernels.linear import skinny_launch, tile_choice
from kernels.linear.tile import SLICES, SkinnyProblem, SkinnyTile, SkinnyTiles, macros
from kernels.linear.tile_choice import candidates, defaults, from_row, lookup, paired_to
from kernels.linear.tile_room import fits, left_over, most_tiles, num_teams, shared_bytes
from tests.kernels.source_constants import constants, value_of

GPUS = {(9, 0): (132, MAX_SHARED_BYTES[90]), (12, 1): (48, MAX_SHARED_BYTES[121])}
FORMATS = ("nvfp4", "fp8_block", "e4m3_row", "bf16")
SHAPES = ((34816, 5120), (5120, 17408), (5120, 6144), (1024, 5120), (96, 5120), (1, 128), (7, 384),
          (2048, 1024), (4096, 12288), (256, 768), (248320, 5120))  # fmt: skip
FOLDER = Path(skinny_launch.__file__).parent


STREAMED_SOURCES = ("skinny_problem.cuh", "skinny_wgmma.cuh", "skinny_streamed_block.cuh")


def constants_of(
    chosen: Mapping[str, Any], sources: tuple[str, ...] = ("skinny_problem.cuh",)
) -> dict[str, Any]:
    """Evaluate the constants of some sources for a set of macros."""
    names = {"NVFP4": 0, "FP8_BLOCK": 1, "E4M3_ROW": 2, "BF16": 3, "STORE": 0, "ADD_RESIDUAL": 1,
             "SILU_PAIR": 2, "SHARED": 0, "GLOBAL": 1, "STREAMED": 2, "true": 1,
             "aligned": aligned, "PREPARED": 0, **chosen}  # fmt: skip
    return constants(names, (FOLDER / one for one in sources))


def aligned(num_bytes: int) -> int:
    return -(-num_bytes // 128) * 128


def bytes_of_source(tile: SkinnyTile, problem: SkinnyProblem, num_sms: int) -> int:
    """Evaluate where skinny_team.cuh puts the end of what a block shares."""
    chosen = {**macros(tile, problem), "EPILOGUE": 2 if problem.paired else 0}
    names = constants_of(chosen)
    text = (FOLDER / "skinny_team.cuh").read_text()
    names |= {"pairs": problem.num_tiles // (2 if problem.paired else 1)}
    names |= {"teams": num_teams(tile, problem, num_sms), "member": names["CREW"]}

    def found(pattern: str) -> int:
        (expression,) = re.findall(pattern, text)
        in_names = expression.replace("p.teams", "teams").replace("block.pairs", "pairs")
        return value_of(in_names, names)

    for wanted in ("most", "scale_rows", "scale_floats"):
        names[wanted] = found(rf"\b{wanted} =\s+(.+?);")
    rows_at = found(r"return shared \+ BARRIER_BYTES \+ (\(.+?\));") + names["BARRIER_BYTES"]
    teams_at = rows_at + found(r"return rows\(\) \+ (.+?);")
    scales_at = found(r"teams = block.teams\(\) \+ (.+?);") + found(
        r"scales = reinterpret_cast<float\*>\(teams \+ (.+?)\) \+ member"
    )
    return teams_at + scales_at + 4 * found(r"\) \+ (member \* scale_floats);")


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("paired", [False, True])
def test_shared_bytes_are_what_the_source_lays_out(name, paired):
    tiles = [SkinnyTile(splits, crew, wide, stages, source, finishers)
             for splits, crew, wide, stages, source, finishers in
             product((1, 2, 8), (1, 3), (2, 4), (3,), ("shared", "global"), (0, 1))]  # fmt: skip
    for N, Kp in ((34816, 5120), (1024, 5120), (96, 17408)):
        for rows in (1, 9, 24, 32):
            problem = SkinnyProblem(N, Kp, name, rows, paired)
            for tile in tiles:
                assert shared_bytes(tile, problem, 132) == bytes_of_source(tile, problem, 132)


def streamed_bytes_of_source(tile: SkinnyTile, problem: SkinnyProblem) -> int:
    """Evaluate where skinny_streamed_block.cuh puts the end of its ring."""
    chosen = {**macros(tile, problem), "EPILOGUE": 2 if problem.paired else 0}
    names = constants_of(chosen, STREAMED_SOURCES)
    text = (FOLDER / STREAMED_SOURCES[-1]).read_text()

    def found(pattern: str) -> int:
        (expression,) = re.findall(pattern, text)
        return value_of(expression, names)

    scales = names["RING_BARRIERS"] + 4 * found(r"return unscale\(\) \+ (.+?);")
    kept = scales + 4 * found(r"char\*>\(scales\(\) \+ (.+?)\);")
    kept += names["MULTIPLIERS"] * names["LEVELS"] * names["KEPT_BYTES"] + names["SENT_BYTES"]
    return kept + names["STAGES"] * names["SLOT_BYTES"]


@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize("rows", [17, 32])
def test_a_streamed_block_holds_what_the_source_lays_out(rows, paired):
    for N, Kp in ((34816, 5120), (1024, 5120), (96, 17408)):
        problem = SkinnyProblem(N, Kp, "nvfp4", rows, paired)
        for splits, crew, wide, stages in product((1, 2, 4, 8), (1, 5), (3, 17), (2, 5)):
            for finishers in (0, 4) if paired and splits == 1 else (0,):
                tile = SkinnyTile(splits, crew, wide, stages, "streamed", finishers)
                assert shared_bytes(tile, problem, 132) == streamed_bytes_of_source(tile, problem)
                names = constants_of({**macros(tile, problem), "EPILOGUE": 0}, STREAMED_SOURCES)
                assert tile.warps == names["ALL_WARPS"]


@pytest.mark.parametrize("name", FORMATS)
def test_a_ring_holds_whole_steps_aligned_for_the_copy_engine(name):
    problem = SkinnyProblem(1024, 5120, name, 8)
    names = constants_of({**macros(SkinnyTile(1, 1, 2, 2, "global"), problem), "EPILOGUE": 0})
    bits = {"nvfp4": 4, "fp8_block": 8, "e4m3_row": 8, "bf16": 16}[name]
    assert names["TILE_BYTES"] == 16 * 128 * bits // 8
    assert names["STAGE_BYTES"] % 128 == 0


@pytest.mark.parametrize("capability", GPUS)
@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(
    ("shape", "paired"), [*((one, False) for one in SHAPES), *((one, True) for one in SHAPES[:-1])]
)
def test_defaults_fit_and_serve_every_row_count(capability, name, shape, paired):
    N, Kp = (2 * 32 * -(-shape[0] // 32) if paired else shape[0]), shape[1]
    num_sms, limit = GPUS[capability]
    tiles = defaults(N, Kp, name, capability, paired=paired)
    for count in range(1, 33):
        launches = tiles.launches(count)
        assert sum(rows for rows, _ in launches) == count
        for rows, tile in launches:
            problem = SkinnyProblem(N, Kp, name, rows, paired)
            assert fits(tile, problem, num_sms, limit)
            assert rows <= tile.most_rows


@pytest.mark.parametrize("capability", GPUS)
@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("rows", [8, 16, 32])
def test_candidates_fit_are_told_apart_and_hold_the_default(capability, name, rows):
    num_sms, limit = GPUS[capability]
    problem = SkinnyProblem(6144, 5120, name, rows)
    found = candidates(problem, capability)
    assert len(set(found)) == len(found)
    default = defaults(6144, 5120, name, capability)
    served = default.serving(rows) or default.upto_16
    assert replace(found[0], most_rows=served.most_rows) == served
    for tile in found[1:]:
        launched = replace(problem, rows=min(rows, tile.most_rows))
        assert fits(tile, launched, num_sms, limit)
        assert from_row(tile.as_row()) == tile


def test_a_row_of_another_version_is_refused_with_what_it_lacks():
    row = SkinnyTile(1, 1, 1, 2, "global").as_row()
    del row["finishers"]
    with pytest.raises(ValueError, match=r"a row has no finishers, .*qwen38 tune --family linear"):
        from_row(row)


def test_slices_cover_k_in_warps_of_their_own():
    for splits, steps in product((1, 2, 4, 8), (1, 2, 40, 136)):
        tile = SkinnyTile(splits, 3, 1, 2, "global")
        cut = [(i + 1) * steps // SLICES - i * steps // SLICES for i in range(SLICES)]
        assert (sum(cut), max(cut)) == (
            steps,
            SkinnyProblem(16, 128 * steps, "bf16", 1).longest_slice,
        )
        assert tile.team_warps * splits == SLICES
        assert tile.workers == 3 * tile.team_warps
        assert tile.warps == tile.workers + tile.finishers


@pytest.mark.parametrize("N", [1, 16, 17, 1000, 34816])
def test_teams_share_all_tiles_evenly(N):
    for splits, crew in product((1, 2, 4), (1, 4)):
        tile = SkinnyTile(splits, crew, 1, 2, "global")
        problem = SkinnyProblem(N, 5120, "nvfp4", 8)
        teams = num_teams(tile, problem, 132)
        first = [team * problem.num_tiles // teams for team in range(teams + 1)]
        assert (first[0], first[-1]) == (0, problem.num_tiles)
        shares = [b - a for a, b in pairwise(first)]
        assert max(shares) - min(shares) <= 1
        assert max(shares) == most_tiles(tile, problem, 132)
        assert sum(share == 0 for share in shares) < crew, "of one crew some teams are idle at most"
        assert teams % crew == 0
        assert teams // crew * splits <= 132


A_TILE = SkinnyTile(2, 4, 1, 2, "shared")


def test_a_call_of_many_rows_takes_two_launches_where_no_tile_serves_it():
    tiles = SkinnyTiles(A_TILE, replace(A_TILE, tiles=2))
    assert tiles.launches(16) == ((16, tiles.upto_16),)
    assert tiles.launches(17) == ((16, tiles.upto_16), (1, tiles.upto_8))
    assert tiles.launches(32) == ((16, tiles.upto_16), (16, tiles.upto_16))


def test_a_tile_serves_no_more_rows_than_it_says():
    tiles = SkinnyTiles(A_TILE, A_TILE, replace(A_TILE, most_rows=16))
    assert tiles.serving(32) is None
    assert [rows for rows, _ in tiles.launches(25)] == [16, 9]


def test_a_pair_is_not_torn_apart():
    problem = SkinnyProblem(64, 512, "nvfp4", 8, paired=True)
    assert not fits(SkinnyTile(1, 1, 1, 2, "global"), problem, 132, MAX_SHARED_BYTES[90])
    assert fits(SkinnyTile(1, 1, 2, 2, "global"), problem, 132, MAX_SHARED_BYTES[90])


def test_a_streamed_pair_is_shared_out_by_8_outputs():
    problem = SkinnyProblem(34816, 5120, "nvfp4", 32, paired=True)
    tile = SkinnyTile(1, 5, 17, 5, "streamed", 0)
    assert (num_teams(tile, problem, 132), most_tiles(tile, problem, 132)) == (132, 17)
    assert fits(tile, problem, 132, MAX_SHARED_BYTES[90])
    assert not fits(replace(tile, tiles=16), problem, 132, MAX_SHARED_BYTES[90])


def test_tiles_that_are_left_over_are_dealt_out_by_fours_and_slices():
    problem = SkinnyProblem(34816, 5120, "nvfp4", 32, paired=True)
    tile = SkinnyTile(1, 4, 16, 5, "streamed", 4)
    assert (num_teams(tile, problem, 132), left_over(tile, problem, 132)) == (132, 64)
    assert fits(tile, problem, 132, MAX_SHARED_BYTES[90])
    others = (
        (tile, replace(problem, paired=False)),
        (tile, replace(problem, N=34816 - 32)),  # not by fours
        (tile, replace(problem, N=33792)),  # none
        (replace(tile, tiles=15), problem),  # more than there are blocks for
        (replace(tile, splits=2), problem),
        (replace(tile, finishers=2), problem),
        (replace(tile, tiles=2, crew=1), replace(problem, N=4864)),  # than a stage has room for
    )
    for one, other in others:
        assert not fits(one, other, 132, MAX_SHARED_BYTES[90]), (one, other)


def test_many_rows_of_a_pair_stream_past_where_there_is_wgmma():
    for capability, streams in (((9, 0), True), ((10, 0), False), ((12, 1), False)):
        tiles = defaults(34816, 5120, "nvfp4", capability, paired=True)
        found = [tiles.serving(rows) for rows in (24, 32)]
        assert all(one is not None and one.is_streamed for one in found) is streams
        assert paired_to(capability) == (32 if streams else 16)
    tiles = defaults(34816, 5120, "nvfp4", (9, 0), paired=True)
    measured = SkinnyTile(1, 4, 16, 5, "streamed", 4)
    assert tiles.upto_24 == tiles.upto_32 == measured, "as the table has it"
    smaller = defaults(16384, 5120, "nvfp4", (9, 0), paired=True).upto_32
    assert smaller is not None
    assert smaller.splits == 1, "no blocks share K where each has room for its outputs"


def test_the_macros_are_all_that_a_row_count_and_an_output_count_change():
    one, other = (SkinnyProblem(N, 5120, "bf16", rows) for N, rows in ((16, 3), (34816, 8)))
    assert macros(A_TILE, one) == macros(A_TILE, other)
    assert macros(A_TILE, replace(one, rows=9))["ROW_BLOCKS"] == 2


def row(rows: int, **changed) -> dict:
    key = {"op": "skinny_linear", "N": 1024, "K": 5120, "format": "nvfp4", "rows": rows}
    return {**key, **asdict(A_TILE), **changed}


def test_a_table_gives_a_weight_its_tiles():
    table = [row(8), row(16, tiles=2), row(32, stages=3), row(8, tiles=4), {"op": "other"}]
    table[-1] |= {"N": 1024, "K": 5120, "format": "nvfp4"}
    tiles = lookup(table, 1024, 5120, "nvfp4")
    assert tiles == SkinnyTiles(A_TILE, replace(A_TILE, tiles=2), replace(A_TILE, stages=3))


@pytest.mark.parametrize(("N", "K", "name"), [(1025, 5120, "nvfp4"), (1024, 512, "nvfp4"),
                                              (1024, 5120, "bf16")])  # fmt: skip
def test_a_weight_that_no_row_names_has_none(N, K, name):
    assert lookup([row(8), row(16)], N, K, name) is None


def test_a_table_that_lacks_a_class_is_refused():
    with pytest.raises(ValueError, match=r"for \[8\] rows, expected 8 and 16; run qwen38 tune"):
        lookup([row(8)], 1024, 5120, "nvfp4")


def test_what_does_not_fit_anywhere_is_a_sentence(monkeypatch):
    monkeypatch.setattr(tile_choice, "fits", lambda *a: False)
    with pytest.raises(ValueError, match="no skinny launch fits bf16 16x128 on sm_121"):
        defaults(16, 128, "bf16", (12, 1))
