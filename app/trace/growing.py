"""From the lines of a recording back to turns; a line that does not fit is counted, not trusted."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from app.sessions.checked import DAMAGED, MAX_TURN_TOKENS, count, counts, number, text
from app.sessions.turns import (
    COLUMNS,
    figures_of,
    rounds_of,
    row_values,
    with_drafts,
)
from app.trace.lines import FORMAT, Line
from app.trace.traced import CUT_OFF, Chunk, Fact, Head, Notice, Piece, TracedTurn, TraceError
from engine.records import TurnRecord
from engine.types import Channel


class LineReader:
    """Puts lines together to turns; ``num_damaged`` counts those that do not fit."""

    def __init__(self) -> None:
        self.num_damaged = 0
        self._head: Head | None = None
        self._columns: Sequence[str] = COLUMNS
        self._turn: _Growing | None = None

    def turns(self, lines: Iterable[Line | None]) -> Iterator[TracedTurn]:
        """The turns behind ``lines``; None stands for a line that did not read."""
        for line in lines:
            try:
                done = self._take(line)
            except DAMAGED:
                self.num_damaged += 1
            else:
                if done is not None:
                    yield done
        if self._turn is not None:
            yield self._turn.cut_off()

    def _take(self, line: Line | None) -> TracedTurn | None:
        """Take a line; returns the turn that it ended."""
        if line is None:
            raise ValueError(line)
        match line["type"]:
            case "trace":
                self._head, self._columns = read_head(line), read_columns(line)
                return self._replace(None)
            case "turn" if self._head is not None:
                return self._replace(_Growing(self._head, self._columns, line))
            case kind if self._turn is None:
                raise ValueError(kind)
            case "end":
                done, self._turn = self._turn.end(line), None
                return done
            case kind:
                self._turn.add(kind, line)
        return None

    def _replace(self, turn: "_Growing | None") -> TracedTurn | None:
        before, self._turn = self._turn, turn
        return before.cut_off() if before is not None else None


def read_head(line: Line) -> Head:
    """The head behind its line.

    Raises:
        TraceError: a later make of this program wrote it.
        ValueError: it is damaged; so do the others of `DAMAGED` say.
    """
    if (made := count(line, "format")) > FORMAT:
        raise TraceError(
            f"The trace has the format {made}, expected {FORMAT} at most.",
            "A newer version of this program wrote it; open it there.",
        )
    return Head(text(line, "run"), text(line, "at"), _facts(line["facts"]))


def read_columns(line: Line) -> Sequence[str]:
    """What the rows of rounds below a head hold; raises ValueError when that is too little."""
    columns = [str(one) for one in line["columns"]]
    if not set(COLUMNS) <= set(columns):
        raise ValueError(columns)
    return columns


class _Growing:
    """A turn while its lines come in."""

    def __init__(self, head: Head, columns: Sequence[str], line: Line) -> None:
        self._head = head
        self._columns = columns
        self._start_s = number(line, "start_s")
        self._at = text(line, "at")
        self._request = _facts(line["request"])
        self._prompt = str(line.get("prompt", ""))
        self._rows: list[Sequence[Any]] = []
        self._num_tokens = 0
        self._chunks: list[Chunk] = []
        self._notices: list[Notice] = []
        self._pieces: list[Piece] = []

    def add(self, kind: str, line: Line) -> None:
        match kind:
            case "round":
                self._add_row(line["row"])
            case "chunk":
                times = (number(line, "start_s"), number(line, "end_s"))
                names = ("num_tokens", "num_total", "num_reused")
                self._chunks.append(Chunk(*times, *(count(line, one) for one in names)))
            case "notice":
                self._notices.append(Notice(number(line, "at_s"), text(line, "text")))
            case "text":
                channel: Channel = "thinking" if line["channel"] == "thinking" else "answer"
                self._pieces.append(Piece(number(line, "at_s"), channel, text(line, "text")))
            case _:
                raise ValueError(kind)

    def _add_row(self, row: Sequence[Any]) -> None:
        self._num_tokens += row_values(self._columns, row)["num_tokens"]
        self._rows.append(row)

    def end(self, line: Line) -> TracedTurn:
        kept = line.get("ids")
        num_tokens = count(line, "num_tokens", MAX_TURN_TOKENS)
        ids = (0,) * num_tokens if kept is None else counts(kept)
        rounds = rounds_of(self._columns, self._rows, ids)
        return self._done(
            TurnRecord(
                text=str(line.get("text", "")),
                reasoning=str(line.get("reasoning", "")),
                token_ids=ids,
                rounds=with_drafts(rounds, line.get("drafts", ())),
                ranges=(),
                token_chars=counts(line.get("chars", ())),
                **figures_of(line),
            )
        )

    def cut_off(self) -> TracedTurn:
        """The turn without its end: what is known of it."""
        # a first token comes out of the prefill and has no round
        ids = (0,) * (self._num_tokens + 1) if self._rows else ()
        rounds = rounds_of(self._columns, self._rows, ids)
        first = self._chunks[0] if self._chunks else Chunk(0.0, 0.0, 0, 0, 0)
        last = self._chunks[-1] if self._chunks else first
        first_s = rounds[0].start_s if rounds else last.end_s
        end_s = rounds[-1].start_s + rounds[-1].round_ms / 1e3 if rounds else last.end_s
        prefill_s = last.end_s - first.start_s
        return self._done(
            TurnRecord(
                text="".join(one.text for one in self._pieces if one.channel == "answer"),
                reasoning="".join(one.text for one in self._pieces if one.channel == "thinking"),
                token_ids=ids,
                finish_reason="error",
                prompt_tokens=last.num_total,
                reused_tokens=last.num_reused,
                ttft_s=first_s,
                total_s=end_s,
                prefill_tok_s=(last.num_tokens - last.num_reused) / prefill_s if prefill_s else 0.0,
                decode_tok_s=self._num_tokens / (end_s - first_s) if end_s > first_s else 0.0,
                rounds=rounds,
                ranges=(),
                seed=0,
                error=CUT_OFF,
            )
        )

    def _done(self, record: TurnRecord) -> TracedTurn:
        return TracedTurn(
            head=self._head,
            start_s=self._start_s,
            at=self._at,
            request=self._request,
            prompt=self._prompt,
            chunks=tuple(self._chunks),
            notices=tuple(self._notices),
            pieces=tuple(self._pieces),
            record=record,
        )


def _facts(values: Mapping[str, object]) -> dict[str, Fact]:
    found = {str(name): value for name, value in values.items()}
    if not all(isinstance(one, str | int | float | bool) for one in found.values()):
        raise TypeError("facts are words and numbers")
    return cast("dict[str, Fact]", found)
