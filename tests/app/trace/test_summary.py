"""Figures: the records' own, the same from a recording and from its export, and side by side."""

import json
from dataclasses import replace

import pytest

from app.trace.export import export
from app.trace.summary import Summary
from app.trace.table import comparison_text, summary_text
from tests.app.trace.scripted import ExactEngine, read, record
from tests.fakes.engine import Script


def summary_of(path):
    summary = Summary()
    for turn in read(path):
        summary.add(turn)
    return summary


@pytest.fixture
def recorded(tmp_path):
    path, records = record(tmp_path, engine=ExactEngine(rounds=12), num_turns=2)
    return path, records


def test_a_turns_figures_are_those_of_its_record(recorded):
    path, records = recorded
    summary = summary_of(path)
    for one, given in zip(summary.turns, records, strict=True):
        assert one.decode_tok_s == pytest.approx(given.decode_tok_s, rel=1e-6)
        assert one.prefill_tok_s == pytest.approx(given.prefill_tok_s)
        assert (one.ttft_s, one.first_ms) == (given.ttft_s, given.ttft_s * 1e3)
        assert (one.num_rounds, one.num_tokens) == (12, 37)
        assert (one.tested, one.accepted) == (28, 20)
        assert one.tokens_a_round == 3
        assert one.accepted_a_round == pytest.approx(20 / 12)
        assert one.accepted_by_position == pytest.approx((8 / 12, 8 / 8, 4 / 8))
        assert one.gb_s == pytest.approx(given.rounds[0].gb_s)
        assert one.share_of_read == pytest.approx(given.rounds[0].gb_s / 200.0)
        assert one.round_ms_p50 == one.round_ms_p95 == pytest.approx(20.0)


def test_the_parts_add_up_to_the_whole(recorded):
    one = summary_of(recorded[0]).total
    parts = [one.first_ms, *one.phase_ms.values(), one.other_ms]
    assert sum(parts) == pytest.approx(one.total_ms)
    assert sum(one.share(part) for part in parts) == pytest.approx(1.0)
    assert one.other_ms == pytest.approx(20.0)


def test_totals_are_sums_and_rates_of_sums(recorded):
    path, records = recorded
    total = summary_of(path).total
    assert (total.num_turns, total.num_rounds, total.num_tokens) == (2, 24, 74)
    assert total.decode_tok_s == pytest.approx(records[0].decode_tok_s)
    assert total.ttft_s == records[0].ttft_s


@pytest.mark.parametrize("name", ["x.json", "x.json.gz"])
def test_an_export_says_the_same_as_the_recording(recorded, name):
    path, _ = recorded
    export(read(path), path.with_name(name))
    first, second = summary_of(path), summary_of(path.with_name(name))
    assert (first.turns, first.ends, first.facts) == (second.turns, second.ends, second.facts)
    assert first.total == second.total
    assert summary_text(first) == summary_text(second)


def test_a_rate_of_nothing_is_a_dash(recorded):
    summary = summary_of(recorded[0])
    summary.turns[1] = replace(summary.turns[1], prefill_tok_s=0.0, decode_tok_s=0.0)
    rows = [row.split() for row in summary_text(summary).splitlines()]
    assert next(row for row in rows if row[:1] == ["2"])[5:7] == ["-", "-"]


def test_a_turn_that_was_cut_off_counts_as_far_as_it_came(recorded):
    path, records = recorded
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:-5]))
    summary = summary_of(path)
    assert summary.ends == ["stop", "cut off"]
    assert summary.turns[1].num_rounds == 8
    assert summary.turns[1].decode_tok_s == pytest.approx(records[1].decode_tok_s, rel=1e-4)


def test_the_text_fits_80_columns_and_says_what_it_shows(tmp_path):
    path, _ = record(tmp_path, engine=ExactEngine(rounds=12_000), num_turns=2)
    record(tmp_path, Script(answer=""), path=path)
    text = summary_text(summary_of(path))
    assert max(map(len, text.splitlines())) <= 80
    for words in (
        "Qwen3.8-27B · profile nvfp4 · cpu",
        "36,001",
        "all",
        "of read",
        "95th percentile",
    ):
        assert words in text


def test_hostile_names_reach_no_terminal(tmp_path):
    path, _ = record(tmp_path)
    data = path.read_text().replace('"scripted"', json.dumps("\x1b[2J" + "x" * 500))
    path.write_text(data)
    text = summary_text(summary_of(path))
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= 80


def test_a_comparison_names_what_differs_and_by_how_much(tmp_path):
    slow, _ = record(
        tmp_path, engine=ExactEngine(12), path=tmp_path / "a.trace", draft__tokens=3
    )  # fmt: skip
    fast, _ = record(
        tmp_path, engine=ExactEngine(12, ms=(2.0, 6.0, 1.0, 1.0), num_bytes=2_000_000),
        path=tmp_path / "b.trace", draft__tokens=7,
    )  # fmt: skip
    text = comparison_text(summary_of(slow), summary_of(fast))
    assert "setting.draft.tokens: 3 -> 7" in text
    assert "engine.model" not in text
    rows = {line[:29].strip(): line[29:].split() for line in text.splitlines()}
    assert rows["verify, ms a round"] == ["16.000", "6.000", "-62.5%"]
    assert rows["draft, ms a round"] == ["2.000", "2.000", "same"]
    assert rows["decode, tok/s"] == ["150.00", "300.00", "+100.0%"]
    assert rows["bandwidth, GB/s"] == ["0.1", "0.2", "+100.0%"]
    assert max(map(len, text.splitlines())) <= 80


def test_traces_that_were_recorded_alike_differ_in_nothing(tmp_path):
    path, _ = record(tmp_path)
    assert "differently" not in comparison_text(summary_of(path), summary_of(path))
