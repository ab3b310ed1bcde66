"""Turns as Chrome trace events, and back.

Perfetto's rules decide the shape: slices of one track nest and never overlap, so times are laid out
in whole nanoseconds and a part never begins before the one in front of it ended; a counter has one
value an event; a flow's two ends share id, category and name. The arguments of an event hold its
line of the recording, so that an export loses nothing.

Two tracks: ``engine`` has the turns with prefill, chunks and rounds below them, ``chat`` the wait
from each prompt to its first token. The four phases of a round are drawn one behind the other, each
with all of its time. Knows no file.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from itertools import accumulate
from typing import Any, cast

from app.rates import TurnRates
from app.sessions.checked import DAMAGED
from app.sessions.turns import COLUMNS, row_of
from app.trace.lines import FORMAT, Line, end_line, head_line
from app.trace.traced import Chunk, Head, TracedTurn
from engine.records import PHASES

MADE_BY = "qwen38 trace"
ENGINE, CHAT = 1, 2
"""Process and thread numbers of the two tracks; 0 would mean something else to Perfetto."""

RUN_GAP_NS = 1_000_000_000
"""Between two runs of a session: days between them would leave nothing to see."""

COUNTERS = (("decode", "tok/s"), ("accepted", "drafts"), ("bandwidth", "GB/s"))
"""Counters that fall to 0 with the end of a turn, as (name, key): Perfetto shows both."""

Event = dict[str, Any]


class ChromeLayout:
    """Lays turns out on one timeline that begins at 0 and only goes forward."""

    def __init__(self) -> None:
        self._heads: list[Head] = []
        self._offset_ns = 0
        self._cursor_ns = 0
        self._num_turns = 0

    def names(self) -> list[Event]:
        """The events that name the tracks; they stand first."""
        found: list[Event] = []
        for number, process, thread in ((ENGINE, "engine", "turns"), (CHAT, "chat", "prompts")):
            where = {"ph": "M", "pid": number, "tid": number}
            found += [
                {**where, "name": "process_name", "args": {"name": process}},
                {**where, "name": "thread_name", "args": {"name": thread}},
                {**where, "name": "process_sort_index", "args": {"sort_index": number}},
                {**where, "name": "thread_sort_index", "args": {"sort_index": number}},
            ]
        return found

    def metadata(self) -> dict[str, Any]:
        """What the trace was recorded with; of later runs, what changed."""
        found: dict[str, Any] = {"format": f"{MADE_BY} {FORMAT}"}
        first = _facts(self._heads[0]) if self._heads else {}
        found |= first
        for number, head in enumerate(self._heads[1:], start=2):
            changed = {k: v for k, v in _facts(head).items() if first.get(k) != v}
            found |= {f"run{number}.{name}": value for name, value in changed.items()}
        return found

    def events(self, turn: TracedTurn) -> list[Event]:
        """The events of the next turn, in order of time, a parent before its children."""
        start_ns = self._begin(turn)
        inner = [*self._prefill(turn, start_ns), *self._rounds(turn, start_ns)]
        end_ns = max(self._cursor_ns, start_ns + _ns(turn.record.total_s), start_ns + 1)
        self._cursor_ns = end_ns
        found = [*self._outer(turn, start_ns, end_ns), *inner]
        found += [_counter(end_ns, name, key, 0) for name, key in COUNTERS if turn.record.rounds]
        for event in found:  # an instant may have been stamped a moment behind the end
            event["ts"] = min(event["ts"], end_ns)
        found.sort(key=lambda one: (one["ts"], one["ph"] != "X", -one.get("dur", 0)))
        return [_in_microseconds(one) for one in found]

    def _begin(self, turn: TracedTurn) -> int:
        """Where the turn begins; a new run follows the one before at a fixed distance."""
        self._num_turns += 1
        if not self._heads or self._heads[-1].run != turn.head.run:
            if self._heads:
                self._cursor_ns += RUN_GAP_NS
                self._offset_ns = self._cursor_ns - _ns(turn.start_s)
            self._heads.append(turn.head)
        self._cursor_ns = max(self._cursor_ns, self._offset_ns + _ns(turn.start_s))
        return self._cursor_ns

    def _outer(self, turn: TracedTurn, start_ns: int, end_ns: int) -> Iterator[Event]:
        """The turn itself, its prompt, the flow between them, and what has no length."""
        first_ns = min(max(start_ns + _ns(turn.record.ttft_s), start_ns + 1), end_ns)
        request = {"num_tokens": turn.record.prompt_tokens}
        flow = {"cat": "prompt", "name": "prompt", "id": self._num_turns, "ts": start_ns}
        yield _slice(start_ns, end_ns, "turn", self._turn_args(turn))
        yield _slice(start_ns, first_ns, "prompt", request, CHAT)
        yield {"ph": "s", "pid": CHAT, "tid": CHAT, **flow}
        yield {"ph": "f", "bp": "e", "pid": ENGINE, "tid": ENGINE, **flow}
        if turn.record.token_ids:
            yield _instant(first_ns, "first token", {})
        for notice in turn.notices:
            yield _instant(start_ns + _ns(notice.at_s), "notice", asdict(notice))
        for piece in turn.pieces:
            yield _instant(start_ns + _ns(piece.at_s), "text", asdict(piece))

    def _turn_args(self, turn: TracedTurn) -> dict[str, Any]:
        args: dict[str, Any] = {
            "turn": self._num_turns,
            "run": len(self._heads),
            "start_s": turn.start_s,
            "at": turn.at,
            "request": turn.request,
        }
        if turn.prompt:
            args["prompt"] = turn.prompt
        if not turn.is_cut_off:
            keeps_text = bool(turn.pieces)
            args["end"] = end_line(turn.record, keep_text=keeps_text)
        return args

    def _prefill(self, turn: TracedTurn, start_ns: int) -> Iterator[Event]:
        spans: list[tuple[int, int, Chunk]] = []
        for chunk in turn.chunks:
            begin, end = self._span(start_ns + _ns(chunk.start_s), start_ns + _ns(chunk.end_s))
            spans.append((begin, end, chunk))
        if not spans:
            return
        yield _slice(spans[0][0], spans[-1][1], "prefill", {"num_chunks": len(spans)})
        for begin, end, chunk in spans:
            yield _slice(begin, end, "chunk", asdict(chunk))
            yield _counter(end, "context", "tokens", chunk.num_tokens)

    def _rounds(self, turn: TracedTurn, start_ns: int) -> Iterator[Event]:
        rates = TurnRates()
        for one in turn.record.rounds:
            rates.take_round(one)
            edges_ns = [_ns(ms / 1e3) for ms in accumulate(one.ms[name] for name in PHASES)]
            wanted_ns = start_ns + _ns(one.start_s)
            begin, end = self._span(wanted_ns, max(wanted_ns, self._cursor_ns) + edges_ns[-1])
            args = dict(zip(COLUMNS, row_of(one), strict=True))
            yield _slice(begin, end, "round", {**args, "gb_s": round(one.gb_s, 3)})
            yield from _phases(begin, edges_ns)
            values = (rates.now_tok_s or 0.0, one.accepted, one.gb_s)
            for (name, key), value in zip(COUNTERS, values, strict=True):
                yield _counter(begin, name, key, round(value, 3))
            yield _counter(begin, "context", "tokens", one.context_tokens)

    def _span(self, begin_ns: int, end_ns: int) -> tuple[int, int]:
        """A part that begins no earlier than the one before ended, and has some length."""
        begin = max(begin_ns, self._cursor_ns)
        self._cursor_ns = max(end_ns, begin + 1)
        return begin, self._cursor_ns


def _phases(begin_ns: int, edges_ns: list[int]) -> Iterator[Event]:
    """The phases of a round by where they end; one without length would sink into the next."""
    before = 0
    for name, edge in zip(PHASES, edges_ns, strict=True):
        if edge > before:
            yield _slice(begin_ns + before, begin_ns + edge, name, {})
        before = edge


def is_ours(document: Mapping[str, Any]) -> bool:
    """Whether a Chrome trace was exported by this program."""
    metadata = document.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(document.get("traceEvents"), list):
        return False
    return str(cast("Event", metadata).get("format", "")).startswith(f"{MADE_BY} ")


def lines_of(document: Mapping[str, Any]) -> Iterator[Line | None]:
    """The lines of the recording that an exported trace was made of; None for a damaged event."""
    metadata = cast("Event", document["metadata"])
    run = 0
    end: Line | None = None
    for event in cast("list[Any]", document["traceEvents"]):
        try:
            line = _line_of(event)
        except DAMAGED:
            yield None
            continue
        if line is None:
            continue
        if line["type"] == "turn":
            if end is not None:
                yield end
            if line.get("run") != run:
                run = line.get("run")
                yield {**head_line(_head_of(metadata, run)), "format": _format_of(metadata)}
            end = line.get("end")
        yield line
    if end is not None:
        yield end


def _line_of(event: Event) -> Line | None:
    """The line behind an event; None for one that only draws."""
    name, args = event.get("name"), event.get("args", {})
    match event["ph"], name:
        case "X", "round":
            return {"type": "round", "row": [args[one] for one in COLUMNS]}
        case ("X", "turn" | "chunk") | ("i", "notice" | "text"):
            return {"type": name, **args}
        case _:
            return None


def _head_of(metadata: Event, run: object) -> Head:
    prefix = f"run{run}."
    own = {
        name[len(prefix) :]: value for name, value in metadata.items() if name.startswith(prefix)
    }
    facts = {name: value for name, value in metadata.items() if "." in name} | own
    at = str(own.get("at", metadata.get("at", "")))
    return Head(str(run), at, {name: value for name, value in facts.items() if name != "at"})


MOST_DIGITS = 9
"""That are read of a format's number: Python refuses one of thousands."""


def _format_of(metadata: Event) -> int:
    made = str(metadata["format"]).removeprefix(f"{MADE_BY} ")
    return int(made[:MOST_DIGITS]) if made.isdecimal() else 0


def _facts(head: Head) -> dict[str, Any]:
    return {"at": head.at, **head.facts}


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)


def _slice(
    begin_ns: int, end_ns: int, name: str, args: Mapping[str, Any], track: int = ENGINE
) -> Event:
    where = {"ph": "X", "pid": track, "tid": track, "ts": begin_ns, "dur": end_ns - begin_ns}
    return {**where, "name": name, "args": args}


def _instant(at_ns: int, name: str, args: Mapping[str, Any]) -> Event:
    return {
        "ph": "i", "s": "t", "pid": ENGINE, "tid": ENGINE, "ts": at_ns, "name": name, "args": args,
    }  # fmt: skip


def _counter(at_ns: int, name: str, key: str, value: float) -> Event:
    return {"ph": "C", "pid": ENGINE, "ts": at_ns, "name": name, "args": {key: value}}


def _in_microseconds(event: Event) -> Event:
    """Times as the format wants them: microseconds, to the nanosecond."""
    for name in ("ts", "dur"):
        if name in event:
            event[name] = event[name] / 1e3
    return event
