"""Files of every kind: ours, damaged, foreign, and made to harm."""

import gzip
import json
import os

import pytest

from app.trace.export import export
from app.trace.read import Source, TraceReader, all_turns
from app.trace.traced import TraceError
from tests.app.trace.scripted import ExactEngine, read, record


@pytest.fixture
def path(tmp_path):
    return record(tmp_path, engine=ExactEngine(rounds=4))[0]


FOREIGN = {
    "empty": b"",
    "text": b"hello",
    "a number": b"17",
    "another JSON": b'{"traceEvents": []}',
    "a bare array": b'[{"ph": "X", "ts": 1}]',
    "another tracer": b'{"traceEvents": [], "metadata": {"format": "chrome"}}',
    "metadata is no object": b'{"traceEvents": [], "metadata": 3}',
    "events are no list": b'{"traceEvents": 3, "metadata": {"format": "qwen38 trace 1"}}',
    "half of one": b'{"displayTimeUnit":"ms","traceEvents":[\n{"ph":"M"',
    "brackets": b"[" * 100_000,
    "binary": bytes(range(256)),
    "a session": b'{"type":"session","format":1,"id":"x"}\n',
}


@pytest.mark.parametrize("content", FOREIGN.values(), ids=FOREIGN)
def test_foreign_files_are_refused_in_a_sentence(tmp_path, content):
    (tmp_path / "x.json").write_bytes(content)
    with pytest.raises(TraceError, match=r"is no trace of qwen38\."):
        read(tmp_path / "x.json")


def test_what_is_no_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for name, words in (("none", "is missing"), ("", "is no file"), ("pipe", "is no file")):
        with pytest.raises(TraceError, match=words):
            read(tmp_path / name)


def test_damaged_archives_are_named_so(tmp_path, path):
    export(read(path), tmp_path / "x.json.gz")
    whole = (tmp_path / "x.json.gz").read_bytes()
    for data in (whole[:-20], whole[:40] + b"damage" + whole[46:], b"\x1f\x8b\x08garbage"):
        (tmp_path / "x.json.gz").write_bytes(data)
        with pytest.raises(TraceError, match="damaged gzip"):
            read(tmp_path / "x.json.gz")
    (tmp_path / "packed.trace").write_bytes(gzip.compress(path.read_bytes()))
    assert read(tmp_path / "packed.trace") == read(path)


def test_a_later_make_is_refused(tmp_path, path):
    export(read(path), tmp_path / "x.json")
    for file, old, new in (
        (path, '"format":1', '"format":2'), (tmp_path / "x.json", "trace 1", "trace 2"),
    ):  # fmt: skip
        file.write_text(file.read_text().replace(old, new, 1))
        with pytest.raises(TraceError, match="has the format 2, expected 1 at most"):
            read(file)


def spoilt_values():
    for value in ("x", None, True, -1, 1e300, 10**400, float("nan"), float("inf"), [], {}):
        for column in range(2, 17):
            yield (
                "round",
                lambda line, column=column, value=value: line["row"].__setitem__(column, value),
            )
        for kind, name in (
            ("turn", "start_s"), ("chunk", "end_s"), ("chunk", "num_total"), ("notice", "at_s"),
            ("end", "num_tokens"), ("end", "ttft_s"), ("end", "seed"), ("end", "finish_reason"),
        ):  # fmt: skip
            yield kind, lambda line, name=name, value=value: line.__setitem__(name, value)


def test_one_bad_value_costs_its_line_and_nothing_else(path):
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for kind, spoil in spoilt_values():
        spoilt = json.loads(json.dumps(lines))
        spoil(next(one for one in spoilt if one["type"] == kind))
        path.write_text("".join(json.dumps(one) + "\n" for one in spoilt))
        reader = TraceReader(Source(path))
        turns = list(reader.turns())
        assert reader.num_damaged >= 1 or _is_harmless(turns)
        assert len(turns) == (0 if kind == "turn" and reader.num_damaged else 1)


@pytest.mark.parametrize(
    "kept",
    [
        {"ids": [float("inf")]}, {"ids": [-1]}, {"ids": "123"}, {"ids": 7}, {"chars": [1e400]},
        {"chars": {"a": 1}}, {"drafts": [[[float("inf")]]]}, {"drafts": [[]]}, {"drafts": [""]},
        {"drafts": 3},
    ],
    ids=str,
)  # fmt: skip
def test_ids_that_are_none_cost_their_line(path, kept):
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    if isinstance(kept.get("drafts"), list):  # those of other rounds are passed over
        kept = {"drafts": kept["drafts"] * sum(one["type"] == "round" for one in lines)}
    spoilt = [one | kept if one["type"] == "end" else one for one in lines]
    path.write_text("".join(json.dumps(one) + "\n" for one in spoilt))
    reader = TraceReader(Source(path))
    (turn,) = reader.turns()
    assert (reader.num_damaged, turn.is_cut_off) == (1, True)


def test_a_format_of_thousands_of_digits_is_refused(tmp_path, path):
    export(read(path), tmp_path / "x.json")
    text = (tmp_path / "x.json").read_text().replace("trace 1", f"trace {'9' * 5000}", 1)
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(TraceError, match="has the format 999999999, expected 1 at most"):
        read(tmp_path / "x.json")


def _is_harmless(turns):
    """A large whole number may be a seed or a byte count as well."""
    (turn,) = turns
    return all(one.gb_s < 1e12 for one in turn.record.rounds) and turn.record.total_s < 1e9


def test_counts_that_would_fill_memory_are_damage(path):
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for kind, change in (
        ("round", {"row": [*lines[5]["row"][:5], 10**12, *lines[5]["row"][6:]]}),
        ("end", {"num_tokens": 10**12}),
    ):
        spoilt = [one | change if one["type"] == kind else one for one in lines]
        path.write_text("".join(json.dumps(one) + "\n" for one in spoilt))
        reader = TraceReader(Source(path))
        assert len(list(reader.turns())) == 1
        assert reader.num_damaged


def test_damage_is_told_and_no_turn_is_an_error(path):
    told = []
    path.write_bytes(path.read_bytes() + b"half a li")
    assert len(list(all_turns(path, told.append))) == 1
    assert told == [f"1 damaged line of {path} could not be read; the rest is here."]
    path.write_text(path.read_text().splitlines()[0] + "\n")
    with pytest.raises(TraceError, match="holds no turn"):
        list(all_turns(path, told.append))
