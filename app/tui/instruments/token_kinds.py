"""What was drafted against what the model chose, token by token; knows no screen."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from engine.records import RoundRecord, TurnRecord

Kind = Literal["plain", "accepted", "corrected", "bonus"]
"""How a committed token came: without a draft, as drafted, in place of a draft that was wrong, or
behind a draft that was right to its end."""


@dataclass(frozen=True, slots=True)
class Step:
    """One place of a round.

    Attributes:
        drafted: ids that were proposed for it; empty where none was, or where they are not known.
        chosen: what the model committed; None behind the end of the round.
        kind: of the committed token.
    """

    drafted: tuple[int, ...]
    chosen: int | None
    kind: Kind = "plain"


@dataclass(frozen=True, slots=True)
class Span:
    """Characters [start, end) of a text, which one token brought."""

    start: int
    end: int
    kind: Kind


def kind_at(one: RoundRecord, place: int) -> Kind:
    """How the committed token at a place of a round came."""
    if place < one.accepted:
        return "accepted"
    if one.tested > one.accepted:
        return "corrected"
    return "bonus" if one.tested else "plain"


def steps_of(one: RoundRecord) -> list[Step]:
    """The places of a round in order; of a tree those along the way that the model went."""
    parents = one.draft_parents or tuple(range(len(one.draft_ids)))
    row: int | None = 0
    steps: list[Step] = []
    for place, chosen in enumerate(one.token_ids):
        rows = [at for at, parent in enumerate(parents, start=1) if parent == row]
        drafted = tuple(one.draft_ids[at - 1] for at in rows)
        steps.append(Step(drafted, chosen, kind_at(one, place)))
        row = next((at for at in rows if one.draft_ids[at - 1] == chosen), None)
    if not one.draft_parents:  # the rest of a chain, which was not looked at
        steps += [Step((left,), None) for left in one.draft_ids[len(one.token_ids) :]]
    return steps


def kinds_of(record: TurnRecord) -> list[Kind]:
    """How each token of a turn came; a first token out of the prefill has no round."""
    kinds: list[Kind] = [
        kind_at(one, place) for one in record.rounds for place in range(len(one.token_ids))
    ]
    first: list[Kind] = ["plain" for _ in range(len(record.token_ids) - len(kinds))]
    return first + kinds


def spans_of(record: TurnRecord) -> list[Span]:
    """The characters of the answer by the token that brought them; empty where nobody knows."""
    if len(record.token_chars) != len(record.token_ids):
        return []
    return list(_spans(record, zip(record.token_chars, kinds_of(record), strict=True)))


class GrowingSpans:
    """The characters of an answer in progress by the token that brought them."""

    def __init__(self) -> None:
        self._tokens: list[tuple[int, Kind]] = []
        self._spans: list[Span] = []
        self._num_taken = 0
        self._end = 0
        self._num_before = 0

    def take(self, one: RoundRecord, token_chars: Sequence[int]) -> None:
        """Take a round that ended (``engine.types.RoundEnded``)."""
        num_first = len(token_chars) - len(one.token_ids)
        if num_first >= 0:
            first: list[Kind] = ["plain"] * num_first
            kinds = first + [kind_at(one, place) for place in range(len(one.token_ids))]
            self._tokens += zip(token_chars, kinds, strict=True)

    def spans(self, num_before: int) -> list[Span]:
        """The characters of the answer, behind so many of thinking; the same list, which grows."""
        if num_before != self._num_before or not self._num_taken:
            self._num_before, self._num_taken, self._end = num_before, 0, -num_before
            self._spans = []
        for num_chars, kind in self._tokens[self._num_taken :]:
            start, self._end = self._end, self._end + num_chars
            if self._end > max(start, 0):
                self._spans.append(Span(max(start, 0), self._end, kind))
        self._num_taken = len(self._tokens)
        return self._spans


def _spans(record: TurnRecord, tokens: Iterable[tuple[int, Kind]]) -> Iterable[Span]:
    end = -len(record.reasoning)  # thinking comes first, and is not part of the answer
    for num_chars, kind in tokens:
        start, end = end, min(end + num_chars, len(record.text))
        if end > max(start, 0):
            yield Span(max(start, 0), end, kind)
