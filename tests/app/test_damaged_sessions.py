"""A damaged session gives back all that is whole in it; a foreign one is let alone."""

import copy
import json
import os
from dataclasses import replace

import pytest

from app.rates import rates_of
from app.sessions.branches import prompt_meant
from app.sessions.search import excerpt_of_file
from app.sessions.store import SessionError
from app.sessions.turns import pack, unpack
from app.stats import stats_line
from engine.errors import RequestError
from engine.records import RangeRecord
from tests.app.records import a_round, a_turn
from tests.app.talks import talk, words

RECORD = replace(
    a_turn([a_round(draft=(5, 6, 7), parents=(0, 0, 1)), a_round(1, draft=(8,))], chars=(1,) * 7),
    prompt_ids=tuple(range(100)),
    ranges=(RangeRecord(0, 100, "prefill", 64), RangeRecord(100, 106, "decode")),
)

TAILS = {
    "half a line": b'{"type":"mess',
    "null bytes": b"\0" * 4096,
    "no text": b"\xff\xfe\n",
    "deep": b"[" * 10_000 + b"\n",
    "a number": b"7\n",
    "no type": b"{}\n",
}


@pytest.mark.parametrize("tail", TAILS.values(), ids=TAILS.keys())
def test_a_damaged_tail_is_skipped_and_told(store, tail):
    session = store.create("m", "demo", "")
    talk(session)
    session.close()
    with session.path.open("ab") as file:
        file.write(tail)
    again = store.open(session.id)
    assert words(again) == words(session)
    assert "damaged" in again.warnings[0]
    again.add_message("user", "and go on")
    again.close()
    assert store.open(session.id).path_messages()[-1].content == "and go on"


def test_every_single_line_may_be_damaged(store):
    session = store.create("m", "demo", "")
    talk(session, "one")
    talk(session, "two")
    session.close()
    whole = session.path.read_bytes().splitlines(keepends=True)
    for index in range(len(whole)):
        for damage in (b"", b"garbage\n", b'{"type":"message","id":5}\n'):
            session.path.write_bytes(b"".join([*whole[:index], damage, *whole[index + 1 :]]))
            kept = store.open(session.id, write=False).path_messages()
            assert len(kept) >= 3


@pytest.mark.parametrize(
    ("parents", "placed"),
    [
        ({"a": "a"}, {"a": "", "b": "a", "c": "b"}),
        ({"a": "c"}, {"a": "", "b": "a", "c": "b"}),
        ({"b": "c"}, {"a": "", "b": "a", "c": "b"}),
        ({"b": "gone"}, {"a": "", "b": "a", "c": "b"}),
    ],
)
def test_no_walk_goes_round_when_a_message_has_lost_its_place(store, parents, placed):
    store.folder.mkdir(parents=True)
    lines = [{"type": "session", "at": "now"}]
    for name, parent in ({"a": "", "b": "a", "c": "b"} | parents).items():
        lines.append(
            {"type": "message", "id": name, "parent": parent, "role": "assistant", "content": name}
        )
    (store.folder / "x.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    session = store.open("x", write=False)
    assert {one.id: one.parent for one in session.messages.values()} == placed
    assert "1 message had lost the place" in session.warnings[0]
    tree = session.tree()
    assert [tree.newest_leaf(one) for one in placed] == ["c", "c", "c"]
    assert [one.content for one in session.path_messages()] == ["a", "b", "c"]
    with pytest.raises(RequestError):
        prompt_meant(session, "a")


def test_a_message_that_is_its_own_beginning_is_passed_over(store):
    session = store.create("m", "demo", "")
    talk(session)
    session.close()
    nobody = {"type": "message", "id": "", "parent": "", "role": "user", "content": "again"}
    with session.path.open("a") as file:
        file.write(json.dumps(nobody) + "\n")
    again = store.open(session.id, write=False)
    assert [one.content for one in again.path_messages()] == [
        one.content for one in session.path_messages()
    ]
    assert "1 damaged line" in again.warnings[0]


def test_a_foreign_file_is_refused_and_not_listed(store):
    store.folder.mkdir(parents=True)
    (store.folder / "x.jsonl").write_text("not ours")
    assert store.list() == []
    with pytest.raises(SessionError, match="no session of this program"):
        store.open("x")


@pytest.mark.parametrize("made", [2, "two", None])
def test_a_session_of_a_newer_make_is_refused_and_not_touched(store, made):
    store.folder.mkdir(parents=True)
    path = store.folder / "20990101-000000-abcd.jsonl"
    path.write_text(json.dumps({"type": "session", "format": made, "at": "2099"}))
    before = path.read_bytes()
    with pytest.raises(SessionError, match=f"has the format {made}, expected 1 at most"):
        store.open(path.stem)
    assert path.read_bytes() == before
    told = f"1 file in {store.folder} could not be read: {path.name}."
    assert store.survey() == ([], told)
    assert store.delete([path.stem]) == [path.stem]


def test_a_session_that_no_memory_holds_is_refused_and_not_read(store):
    store.folder.mkdir(parents=True)
    (store.folder / "x.jsonl").touch()
    os.truncate(store.folder / "x.jsonl", 1 << 40)
    assert store.survey()[1].startswith("1 file in ")
    with pytest.raises(SessionError, match=r"longer than 1\.1 GB\. Move it away"):
        store.open("x")
    assert excerpt_of_file(store.folder / "x.jsonl", "word") == ""


NASTY = (
    *(None, True, -1, 1 << 80, 0.5, "x", [], {}, [[]], ["x"], [-1], [1 << 80], "\ud800"),
    *(float("inf"), float("nan"), [float("inf")], [[float("inf")]], {"a": None}),
)


def places_of(value, at=()):
    yield at
    pairs = value.items() if isinstance(value, dict) else ()
    pairs = enumerate(value[:2]) if isinstance(value, list) else pairs
    for key, one in pairs:
        yield from places_of(one, (*at, key))


def with_value(document, place, value):
    changed = copy.deepcopy(document)
    inner = changed
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    return changed


@pytest.mark.parametrize("value", NASTY, ids=repr)
def test_no_value_of_a_record_is_trusted(value):
    packed = json.loads(json.dumps(pack(RECORD)))
    assert unpack(packed, "", "") is not None
    for place in filter(None, places_of(packed)):
        found = unpack(with_value(packed, place, value), "", "")
        if found is None:
            continue
        assert "tok/s" in stats_line(found)
        assert rates_of(found).record is found
        assert json.dumps(found.as_json(), allow_nan=False)
        assert json.dumps(pack(found), allow_nan=False)
        assert [one.how for one in found.ranges if one.end < one.start] == []
        ids = (*found.prompt_ids, *found.token_ids)
        assert all(type(one) is int and 0 <= one < 1 << 31 for one in ids)


@pytest.mark.parametrize(
    "ranges",
    [
        [(0, 3, "prefill", 0)],
        [(1, 3, "prefill", 64)],
        [(0, 3, "prefill", 64), (4, 5, "decode", 0)],
        [(0, 3, "prefill", 64), (3, 2, "decode", 0)],
        [(0, 3, "guess", 64)],
        [(0, 3, "prefill", 1 << 40)],
    ],
)
def test_a_conversation_that_cannot_have_been_computed_so_has_no_record(ranges):
    names = ("start", "end", "how", "chunk_tokens")
    made = [dict(zip(names, one, strict=True)) for one in ranges]
    assert unpack({**pack(RECORD), "ranges": made}, "", "") is None


@pytest.mark.parametrize("value", [None, "x", -1, float("inf"), [float("inf")]], ids=repr)
def test_one_damaged_file_does_not_take_the_others_along(store, value):
    talk(store.create("m", "demo", ""), "whole")
    damaged = store.create("m", "demo", "")
    talk(damaged, "damaged", RECORD)
    damaged.close()
    lines = [json.loads(one) for one in damaged.path.read_bytes().splitlines()]
    lines[1]["files"] = [["a", 0, 1]]
    for at, line in enumerate(lines):
        for place in filter(None, places_of(line)):
            changed = [*lines[:at], with_value(line, place, value), *lines[at + 1 :]]
            damaged.path.write_text("".join(json.dumps(one) + "\n" for one in changed))
            found, _ = store.survey()
            assert "whole" in [one.title for one in found]
