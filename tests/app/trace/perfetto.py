"""The rules by which Perfetto's importer takes a Chrome trace without dropping or moving anything.

From its sources: ``importers/json`` and ``sorter/trace_sorter.h``. At equal times it takes ``X``
events first, the longest first, else the order of the file.
"""

import gzip
import json
import math
from collections import defaultdict
from pathlib import Path

KINDS = {"X", "C", "M", "s", "f", "i"}


def load(path: Path) -> dict:
    data = path.read_bytes()
    return json.loads(gzip.decompress(data) if path.name.endswith(".gz") else data)


def check(document: dict) -> None:
    """Assert every rule."""
    events = document["traceEvents"]
    for event in events:
        check_fields(event)
    check_metadata(document["metadata"])
    check_names(events)
    check_nesting(events)
    check_counters(events)
    check_flows(events)
    timed = [event["ts"] for event in events if event["ph"] != "M"]
    assert timed == sorted(timed)


def check_fields(event: dict) -> None:
    assert event["ph"] in KINDS
    assert isinstance(event["name"], str)
    assert type(event["pid"]) is int
    assert event["pid"] > 0
    if event["ph"] != "C":
        assert event["tid"] > 0  # 0 would become the process
    if event["ph"] != "M":
        assert math.isfinite(event["ts"])
        assert event["ts"] >= 0
        assert round(event["ts"] * 1e3) == as_ns(event["ts"])
    if event["ph"] == "X":
        assert event["dur"] > 0
    if event["ph"] == "i":
        assert event["s"] == "t"


def check_metadata(metadata: dict) -> None:
    assert all(isinstance(value, str | int | float | bool) for value in metadata.values())


def check_names(events: list[dict]) -> None:
    named = {(e["pid"], e["tid"]) for e in events if e["name"] == "thread_name"}
    assert {(e["pid"], e["tid"]) for e in events if "tid" in e} == named
    assert {e["pid"] for e in events} == {e["pid"] for e in events if e["name"] == "process_name"}
    assert all(e["args"]["name"] for e in events if e["name"] in ("process_name", "thread_name"))


def check_nesting(events: list[dict]) -> None:
    """On one track every slice lies inside the one that is open, or behind it."""
    tracks = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            begin = as_ns(event["ts"])
            tracks[event["pid"], event["tid"]].append(
                (begin, begin + as_ns(event["dur"]), event["name"])
            )
    for slices in tracks.values():
        open_ends = []
        for begin, end, name in sorted(slices, key=lambda one: (one[0], -one[1])):
            while open_ends and open_ends[-1][0] <= begin:
                open_ends.pop()
            if open_ends:
                assert end <= open_ends[-1][0], f"{name} sticks out of {open_ends[-1][1]}"
                assert name in CHILDREN.get(open_ends[-1][1], ()), (name, open_ends[-1][1])
            else:
                assert name in ("turn", "prompt")
            open_ends.append((end, name))


CHILDREN = {
    "turn": ("prefill", "round"),
    "prefill": ("chunk",),
    "round": ("draft", "verify", "accept", "host"),
}


def check_counters(events: list[dict]) -> None:
    last = defaultdict(float)
    for event in events:
        if event["ph"] == "C":
            ((key, value),) = event["args"].items()
            assert math.isfinite(value)
            assert event["ts"] >= last[event["name"], key]
            last[event["name"], key] = event["ts"]


def check_flows(events: list[dict]) -> None:
    """Each flow has one beginning and one end, both inside of a slice of their track."""
    starts = {flow_id(e): e for e in events if e["ph"] == "s"}
    ends = {flow_id(e): e for e in events if e["ph"] == "f"}
    assert starts.keys() == ends.keys()
    assert len(starts) == sum(e["ph"] in "sf" for e in events) / 2
    for one, end in ((e, ends[flow_id(e)]) for e in starts.values()):
        assert one["ts"] <= end["ts"]
        assert end["bp"] == "e"
        for flow in (one, end):
            assert any(
                e["ph"] == "X"
                and (e["pid"], e["tid"]) == (flow["pid"], flow["tid"])
                and e["ts"] <= flow["ts"] <= e["ts"] + e["dur"]
                for e in events
            )


def flow_id(event: dict) -> tuple:
    assert type(event["id"]) is int
    return event["id"], event["cat"], event["name"]


def as_ns(microseconds: float) -> int:
    return round(microseconds * 1e3)
