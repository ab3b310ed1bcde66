"""Launch choices of a verify are those that were measured, and count what the sources lay out."""

import re
from itertools import product
from pathlib import Path

import pytest

from kernels import attention
from kernels.attention import combine_tile
from kernels.attention.chunks import num_chunks
from kernels.attention.combine_tile import CombineTile
from kernels.attention.verify_tile import (
    RowGroups,
    VerifyTile,
    default,
    row_groups,
    sm_of,
)
from tests.kernels.source_constants import constants, value_of

FOLDER = Path(attention.__file__).parent
SHARE = 6
"""Query heads of a KV head of the 27B."""


def laid_out(tile: VerifyTile) -> int:
    """Where a source puts the end of what a block shares."""
    coded = tile.kv_bytes == 1
    sources = (
        "verify_problem.cuh",
        "partials.cuh",
        "chunks.cuh",
        "codes_scores.cuh",
        "codes_values.cuh",
    )
    names = constants(
        {**tile.macros(SHARE), "OVERLAP": 1},
        [FOLDER / one for one in (sources if coded else sources[:1])],
    )
    if not coded:
        return names["MORE_AT"]
    names = constants(names, [FOLDER / "verify_codes.cu"])
    return names["P_AT"] + names["BLOCK_ROWS"] * names["P_BYTES"]


@pytest.mark.parametrize("sm", [90, 121])
def test_shared_bytes_are_what_the_source_lays_out(sm):
    for rows, context, kv_bytes in product((1, 5, 8, 16, 32), (1024, 4096, 32_768), (2, 1)):
        parts = row_groups(rows, SHARE, sm, context, kv_bytes)
        tile = default(parts.rows, SHARE, sm, context, kv_bytes)
        assert tile.shared_bytes == laid_out(tile), tile


def test_threads_are_those_that_the_source_has():
    for rows, kv_bytes in product((1, 5, 8, 10, 16), (2, 1)):
        tile = default(rows, SHARE, 90, 32_768, kv_bytes)
        sources = ("verify_problem.cuh", "verify.cu") if kv_bytes == 2 else ("verify_problem.cuh",)
        names = constants({**tile.macros(SHARE), "OVERLAP": 1}, [FOLDER / one for one in sources])
        if kv_bytes == 1:
            names["THREADS"] = names["WORKERS"] + (128 if tile.m_tiles >= 4 else 32)
        assert tile.threads == names["THREADS"], tile


@pytest.mark.parametrize("each", [1, 2, 4])
def test_a_merge_has_room_for_what_its_source_lays_out(each):
    """Numbers of chunks, tops of warps, weights of strands, then the sums of strands."""
    tile, text = CombineTile(each, 2), (FOLDER / "combine.cu").read_text()
    names = constants(tile.macros(2), [FOLDER / "combine.cu"])
    (strands_at,) = re.findall(r"strands = reinterpret_cast<float4\*>\(shared \+ (.+)\);", text)
    for chunks in (1, 16, 27, 97, num_chunks(262_144)):
        at = 4 * value_of(strands_at.replace("p.chunks", "chunks"), {**names, "chunks": chunks})
        assert tile.shared_bytes(chunks) == at + 16 * names["STRANDS"] * names["QUADS"]
        assert tile.threads == names["THREADS"]


def test_four_warps_multiply_together_from_two_tiles_of_rows_on():
    """3 rows of 6 heads are two tiles of 16: 7.5 us for 8.3 at 4 rows and 1,024 positions."""
    assert [default(rows, SHARE, 90, 1024).wide for rows in (1, 2, 3, 8)] == [False] * 2 + [
        True
    ] * 2
    assert [default(rows, SHARE, 90, 1024).m_tiles for rows in (1, 3, 8, 16)] == [1, 4, 4, 8]
    assert not any(default(rows, SHARE, 100, 1024).wide for rows in (1, 8, 16))


@pytest.mark.parametrize(
    ("rows", "context", "streams", "team"),
    [(1, 1024, 1, 2), (1, 8192, 1, 2), (1, 32_768, 2, 2), (5, 32_768, 1, 1), (16, 32_768, 1, 1)],
)
def test_few_warps_share_columns_and_a_long_context_has_two_streams(rows, context, streams, team):
    tile = default(rows, SHARE, 90, context)
    assert (tile.streams, tile.team) == (streams, team)
    few = default(8, SHARE, 121, context)
    assert (few.m_tiles, few.streams, few.team, few.wide) == (3, 1, 2, False)


def test_only_few_rows_behind_a_short_context_ask_the_l2_ahead():
    behind = {rows: default(rows, SHARE, 90, 8192).behind for rows in (1, 5, 6, 16)}
    assert behind[1] > 0
    assert behind[5] > 0
    assert behind[6] == behind[16] == 0
    assert default(1, SHARE, 90, 4096).behind == default(1, SHARE, 121, 32_768).behind == 0
    in_measure = {
        context: default(16, SHARE, 90, context).under_way < 32 for context in (4096, 8192)
    }
    assert in_measure == {4096: False, 8192: True}


def test_rows_of_a_short_context_go_in_two_groups_from_half_a_block_on():
    assert [row_groups(rows, SHARE, 90, 4096) for rows in (8, 9, 16, 32)] == [
        RowGroups(1, 8), RowGroups(2, 5), RowGroups(2, 8), RowGroups(2, 16),
    ]  # fmt: skip
    assert row_groups(8, SHARE, 121, 4096) == row_groups(8, SHARE, 121, 32_768) == RowGroups(1, 8)
    assert row_groups(16, SHARE, 121, 4096).number == 2, "what fits 99 KiB"


def test_a_merge_is_launched_as_it_was_fastest():
    """All of a short strand at once, two strands a thread where blocks are many."""
    num_sms = 132
    found = {
        (rows, context): combine_tile.default(24 * rows, num_chunks(context), num_sms)
        for rows, context in product((1, 2, 3, 16, 17, 32), (1024, 2048, 4096, 8192, 32_768))
    }
    for context, ahead in ((1024, 2), (2048, 3), (4096, 4)):
        assert found[1, context] == found[16, context] == CombineTile(1, ahead, min_blocks=3)
    for context in (1024, 2048):
        assert found[17, context] == found[32, context] == CombineTile(2, 2, min_blocks=3)
    assert found[32, 4096] == found[3, 32_768] == found[32, 32_768] == CombineTile(1, 4, 3)
    assert found[1, 8192] == CombineTile(1, 6, min_blocks=1)
    assert found[2, 32_768] == CombineTile(1, 12, min_blocks=1)


def test_a_gpu_takes_the_tiles_of_its_kind_of_multiprocessor():
    kinds = {(9, 0): 90, (10, 0): 100, (10, 3): 100, (12, 0): 121, (12, 1): 121, (8, 9): 121}
    assert {one: sm_of(one) for one in kinds} == kinds
