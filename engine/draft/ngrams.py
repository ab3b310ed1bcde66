"""Where the end of a text stood in it before: an index that grows with the text."""

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

ORDERS = (8, 4, 2)
"""Lengths of the n-grams that are indexed, longest first; lengths between them are measured."""

MAX_PLACES = 16
"""Earlier places that are looked at."""

MAX_SUFFIX = 32
"""Tokens compared to tell which place resembles the end best."""

NOWHERE = -1


@dataclass(frozen=True, slots=True)
class Ending:
    """An earlier place where the text ended as it ends now.

    Attributes:
        length: tokens in common.
        continuation: what followed there.
    """

    length: int
    continuation: tuple[int, ...]


def num_common(some: Sequence[int], others: Sequence[int]) -> int:
    """Length of the common beginning."""
    for index, (one, other) in enumerate(zip(some, others, strict=False)):
        if one != other:
            return index
    return min(len(some), len(others))


class NgramIndex:
    """Finds what followed the longest endings of a text.

    For every order, a table holds where each n-gram ended last, and each position where its own
    n-gram ended the time before: the hash chains of LZ77 coders. Appending a token, and taking one
    back, costs a look into each table; the text is never read again.
    """

    def __init__(self) -> None:
        self._ids: list[int] = []
        self._newest: dict[int, dict[tuple[int, ...], int]] = {order: {} for order in ORDERS}
        # entry i belongs to the n-gram that ends behind token i
        self._before = {order: array("q") for order in ORDERS}

    def __len__(self) -> int:
        """Tokens of the text."""
        return len(self._ids)

    def extend(self, token_ids: Iterable[int]) -> None:
        """Append to the text."""
        ids = self._ids
        for token_id in token_ids:
            ids.append(token_id)
            end = len(ids)
            for order in ORDERS:
                if end < order:
                    self._before[order].append(NOWHERE)
                    continue
                newest, ngram = self._newest[order], tuple(ids[-order:])
                self._before[order].append(newest.get(ngram, NOWHERE))
                newest[ngram] = end

    def truncate(self, length: int) -> None:
        """Take back all tokens from ``length`` on."""
        while len(self._ids) > length:
            for order in ORDERS:
                before = self._before[order].pop()
                newest, ngram = self._newest[order], tuple(self._ids[-order:])
                if before != NOWHERE:
                    newest[ngram] = before
                else:
                    newest.pop(ngram, None)  # nothing to take back where it was too short
            self._ids.pop()

    def become(self, token_ids: Sequence[int], start: int = 0) -> None:
        """Make ``token_ids`` the text from ``start`` on; what the old one has in common is kept.

        Args:
            token_ids: of the text.
            start: tokens before them, which are there and stay.
        """
        common = num_common(self._ids[start:], token_ids)
        self.truncate(start + common)
        self.extend(token_ids[common:])

    def continuations(self, num_tokens: int) -> list[tuple[int, ...]]:
        """What followed the end of the text where it stood before; see ``endings``."""
        return [one.continuation for one in self.endings(num_tokens)]

    def endings(self, num_tokens: int) -> list[Ending]:
        """What followed the end of the text where it stood before, no two alike.

        The longest order with an earlier place decides; of its newest ``MAX_PLACES`` places, those
        with the longest common ending come first, and the newest first among equals. A place so
        close that its continuation reaches the end of the text goes on as a repetition.

        Args:
            num_tokens: length of each, 1 or more.
        """
        places = [(self._num_common(place), place) for place in self._places()]
        places.sort(key=lambda one: one[0], reverse=True)
        found: dict[tuple[int, ...], Ending] = {}
        for length, place in places:
            continuation = self._from(place, num_tokens)
            found.setdefault(continuation, Ending(length, continuation))
        return list(found.values())

    def _places(self) -> list[int]:
        """Where the longest indexed ending stood before: positions behind it, newest first."""
        for order in ORDERS:
            places: list[int] = []
            before = self._before[order]
            end = before[-1] if before else NOWHERE
            while end != NOWHERE and len(places) < MAX_PLACES:
                places.append(end)
                end = before[end - 1]
            if places:
                return places
        return []

    def _num_common(self, place: int) -> int:
        """Tokens before ``place`` that are those before the end, up to ``MAX_SUFFIX``."""
        ids, end = self._ids, len(self._ids)
        most = min(MAX_SUFFIX, place)
        for number in range(1, most + 1):
            if ids[place - number] != ids[end - number]:
                return number - 1
        return most

    def _from(self, place: int, num_tokens: int) -> tuple[int, ...]:
        followed = self._ids[place : place + num_tokens]
        if len(followed) < num_tokens:
            followed = (followed * num_tokens)[:num_tokens]
        return tuple(followed)
