"""A table of prices: what was timed, and the line between."""

import math
from dataclasses import replace

import pytest

from engine.draft.price_table import PriceTable, shipped_prices, table_of
from engine.draft.prices import ROW_CLASSES, Prices

TABLE = PriceTable(
    "fp8_block", (1, 4, 16), (1024, 3072), ((6.0, 9.0, 15.0), (7.0, 12.0, 27.0)), (1, 3), (1.0, 2.0)
)


def test_rows_between_two_that_were_timed_cost_in_proportion():
    assert [TABLE.verify(rows) for rows in (1, 2, 4, 10, 16, 28)] == [6, 7, 9, 12, 15, 21]


def test_a_context_costs_more_the_more_rows_read_it():
    added = [TABLE.verify(rows, 2048) - TABLE.verify(rows, 1024) for rows in (1, 4, 16)]
    assert added == pytest.approx([0.5, 1.5, 6.0])
    assert TABLE.verify(4, 0) == TABLE.verify(4, 1024) == 9
    assert TABLE.verify(4, 5120) == pytest.approx(15)
    one = replace(TABLE, context_tokens=(1024,), chain_ms=TABLE.chain_ms[:1])
    assert one.verify(4, 99999) == 9


@pytest.mark.parametrize(
    "table",
    [
        replace(TABLE, context_tokens=(1024, 1536), chain_ms=((6.0, 9.0, 15.0), (5.9, 8.9, 14.0))),
        replace(TABLE, chain_ms=((6.0, 5.0, 3.0), (6.0, 4.0, 2.0)), draft_ms=(2.0, 1.0)),
        replace(TABLE, rows=(20, 24, 32), steps=(3, 4), draft_ms=(1.0, 9.0)),
    ],
    ids=["longer is quicker", "more is quicker", "steep"],
)
def test_noise_makes_nothing_free(table):
    """A line through what was timed may come to nothing, or less, far from it."""
    prices = Prices(table)
    for context_tokens in (0, 2048, 31744, 262144):
        asked = [table.verify(rows, context_tokens) for rows in range(1, 33)]
        assert asked == sorted(asked)
        assert min(asked) > 0
        expected = [table.verify(rows, context_tokens) for rows in ROW_CLASSES]
        assert prices.verify_ms(context_tokens) == pytest.approx(expected)
    drafts = [table.draft(steps) for steps in range(1, 8)]
    assert drafts == sorted(drafts)
    assert min(drafts) > 0


def test_a_tree_costs_what_a_chain_does_unless_it_was_timed():
    assert TABLE.verify(4, branches=True) == TABLE.verify(4)
    trees = replace(TABLE, tree_ms=((6.5, 10.0, 16.0), (8.0, 13.0, 28.0)))
    assert trees.verify(4, 3072, branches=True) == 13
    assert trees.verify(4, 3072) == 12


def test_a_draft_has_a_price_by_steps_and_none_without_a_head():
    assert [TABLE.draft(steps) for steps in (1, 2, 7)] == [1, 1.5, 4]
    assert replace(TABLE, steps=(), draft_ms=()).draft(1) == math.inf


@pytest.mark.parametrize("weight_format", ["nvfp4", "fp8_block", "bf16"])
@pytest.mark.parametrize("shape", ["chain_ms", "tree_ms"])
def test_more_rows_on_a_gb10_add_what_they_do_on_an_h200_by_multiprocessors(weight_format, shape):
    """The rule that the file states; whoever measures an H200 anew computes a GB10 anew."""
    spark, hopper = (shipped_prices(gpu, weight_format) for gpu in ("sm_121", "sm_90"))
    if spark.is_measured:
        return
    assert (spark.rows, spark.context_tokens) == (hopper.rows, hopper.context_tokens)
    for computed, measured in zip(getattr(spark, shape), getattr(hopper, shape), strict=True):
        wanted = [computed[0] + 132 / 48 * (ms - measured[0]) for ms in measured]
        assert computed == pytest.approx(wanted, abs=0.06)


@pytest.mark.parametrize("gpu", ["sm_90", "sm_121"])
@pytest.mark.parametrize("weight_format", ["nvfp4", "fp8_block", "bf16"])
def test_shipped_tables_climb_and_say_where_they_come_from(gpu, weight_format):
    table = shipped_prices(gpu, weight_format)
    assert table is not None
    for points in (table.rows, table.context_tokens, table.steps, table.draft_ms):
        assert list(points) == sorted(set(points))
    for ladders in (table.chain_ms, table.tree_ms):
        assert len(ladders) in (0, len(table.context_tokens))
        assert all(len(one) == len(table.rows) > 1 for one in ladders)
        for rows in range(1, 33):
            by_context = [table.verify(rows, tokens) for tokens in table.context_tokens]
            assert by_context == sorted(by_context)
    for ladder in table.chain_ms:
        assert ladder == tuple(sorted(ladder))
    guessed = {name for one in table.estimated for name in one.split(":")[0].split(", ")}
    assert guessed <= {"chain_ms", "tree_ms", "draft_ms"}
    assert table.is_measured or "chain_ms" in guessed


def test_an_unknown_gpu_or_format_has_no_table():
    assert shipped_prices("sm_80", "bf16") is shipped_prices("sm_90", "int3") is None


def test_lists_of_a_file_become_a_table():
    values = {
        "format": "bf16", "rows": [1], "context_tokens": [8], "chain_ms": [[2.0]], "steps": [],
        "draft_ms": [],
    }  # fmt: skip
    assert table_of(values) == PriceTable("bf16", (1,), (8,), ((2.0,),), (), ())
