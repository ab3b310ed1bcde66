"""Plays a trace without a model: an engine that says again what was recorded, when it was."""

import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from app.trace.facts import info_of
from app.trace.traced import Chunk, TracedTurn
from engine.errors import RequestError
from engine.records import RoundRecord, TurnRecord
from engine.types import (
    EngineInfo,
    Event,
    Message,
    NoticeRaised,
    PromptProgressed,
    Request,
    RoundEnded,
    TextArrived,
    TurnEnded,
)

WORDS = (
    *("each", "word", "stands", "for", "a", "token", "that", "the", "trace", "does", "not"),
    *("hold,", "and"),
)

Timed = tuple[float, Event]
"""Seconds from the start of the turn, and what happens then."""


class ReplayEngine:
    """Answers request n with recorded turn n (``engine.types.ChatEngine``).

    Args:
        turns: what was recorded, at least one.
        speed: 2 plays twice as fast; the figures stay those of the recording.
    """

    def __init__(self, turns: Sequence[TracedTurn], speed: float = 1.0) -> None:
        self._turns = turns
        self._speed = speed
        self._next = 0
        self._info = info_of(turns[0].head.facts)

    @property
    def info(self) -> EngineInfo:
        """What was loaded when the trace was recorded."""
        return self._info

    def count_tokens(self, messages: tuple[Message, ...]) -> int:
        """Prompt tokens of the turn that was asked for last."""
        del messages
        return self._turns[max(self._next - 1, 0)].record.prompt_tokens

    def text_tokens(self, text: str) -> int:
        """A trace holds no tokenizer."""
        del text
        return 0

    def token_texts(self, token_ids: Sequence[int]) -> list[str]:
        """A trace holds no tokenizer."""
        return [""] * len(token_ids)

    def measure_again(self) -> None:
        """What was measured was recorded."""

    def close(self) -> None:
        """Nothing to free."""

    def read_ahead(self, request: Request, stop: threading.Event) -> Iterator[PromptProgressed]:
        """Nothing is read: no other model comes in a replay."""
        del request, stop
        yield from ()

    def generate(self, request: Request, stop: threading.Event) -> Iterator[Event]:
        """Play the next turn; the request itself does not matter.

        Raises:
            RequestError: every turn was played.
        """
        del request
        if self._next == len(self._turns):
            raise RequestError("The replay is over.", "Start it again to see it once more.")
        turn = self._turns[self._next]
        self._next += 1
        return self._play(turn, stop)

    def _play(self, turn: TracedTurn, stop: threading.Event) -> Iterator[Event]:
        began_s = time.perf_counter()
        if self._next == 1:
            yield NoticeRaised(opening_notice(turn))
        played: list[Event] = []
        for at_s, event in timed_events(turn):
            if stop.wait(max(began_s + at_s / self._speed - time.perf_counter(), 0.0)):
                yield TurnEnded(_stopped(turn.record, played))
                return
            played.append(event)
            yield event


def prompts_of(turns: Sequence[TracedTurn]) -> list[str]:
    """What to send for each turn: the prompt where it was kept, else its number and length."""
    return [
        turn.prompt or f"Turn {number} of the trace: {turn.record.prompt_tokens:,} prompt tokens."
        for number, turn in enumerate(turns, start=1)
    ]


def opening_notice(turn: TracedTurn) -> str:
    """Says that this is no living model."""
    when = turn.head.at[:16].replace("T", " ")
    text = "" if turn.pieces else " It holds no text, so that the words are placeholders."
    return f"A replay of a trace that was recorded on {when} UTC: no model is loaded.{text}"


def timed_events(turn: TracedTurn) -> list[Timed]:
    """A turn's events in the order and at the times in which they left the engine."""
    record = turn.record
    found: list[Timed] = [(one.end_s, _progress(one, turn.chunks[0])) for one in turn.chunks]
    found += [(one.at_s, NoticeRaised(one.text)) for one in turn.notices]
    if turn.pieces:
        found += [(one.at_s, TextArrived(one.text, one.channel)) for one in turn.pieces]
    else:
        found += _placeholders(record)
        num_tokens = len(record.token_ids)
        record = replace(
            record,
            text=placeholder(0, num_tokens),
            token_chars=tuple(len(placeholder(at, at + 1)) for at in range(num_tokens)),
        )
    found += _rounds(record)
    found.sort(key=lambda one: one[0])
    last_s = found[-1][0] if found else 0.0
    return [*found, (max(record.total_s, last_s), TurnEnded(record))]


def _rounds(record: TurnRecord) -> Iterator[Timed]:
    """Rounds when they ended, with the characters of their tokens where those are known."""
    is_known = len(record.token_chars) == len(record.token_ids)
    begin, end = 0, len(record.token_ids) - sum(len(one.token_ids) for one in record.rounds)
    for one in record.rounds:
        end += len(one.token_ids)
        yield _end_s(one), RoundEnded(one, record.token_chars[begin:end] if is_known else ())
        begin = end


def placeholder(begin: int, end: int) -> str:
    """A word for each of the tokens [begin, end) of an answer."""
    words = [WORDS[index % len(WORDS)] for index in range(begin, end)]
    return (" " if begin and words else "") + " ".join(words)


def _placeholders(record: TurnRecord) -> Iterator[Timed]:
    """Placeholders when tokens came: the first ones out of the prefill, the others with rounds."""
    at = len(record.token_ids) - sum(len(one.token_ids) for one in record.rounds)
    if at > 0:
        yield record.ttft_s, TextArrived(placeholder(0, at), "answer")
    for one in record.rounds:
        yield _end_s(one), TextArrived(placeholder(at, at + len(one.token_ids)), "answer")
        at += len(one.token_ids)


def _progress(chunk: Chunk, first: Chunk) -> PromptProgressed:
    num_read, read_s = chunk.num_tokens - chunk.num_reused, chunk.end_s - first.start_s
    rate = num_read / read_s if read_s > 0 else 0.0
    return PromptProgressed(chunk.num_tokens, chunk.num_total, chunk.num_reused, rate)


def _end_s(one: RoundRecord) -> float:
    return one.start_s + one.round_ms / 1e3


def _stopped(record: TurnRecord, played: Sequence[Event]) -> TurnRecord:
    """The record of a turn that a person stopped after some of its events."""
    rounds = tuple(one.record for one in played if isinstance(one, RoundEnded))
    texts = [one for one in played if isinstance(one, TextArrived)]
    num_left = sum(len(one.token_ids) for one in record.rounds[len(rounds) :])
    return replace(
        record,
        text="".join(one.text for one in texts if one.channel == "answer"),
        reasoning="".join(one.text for one in texts if one.channel == "thinking"),
        token_ids=record.token_ids[: len(record.token_ids) - num_left] if texts else (),
        rounds=rounds,
        finish_reason="cancelled",
        error="",
    )
