"""How often proposals are right: learned from what the target chose, and from nothing else.

A proposal is tested when the target chose a token behind the path that leads to it, whether it was
verified, pruned or never taken. So all drafters are scored in every round in which they said
something, and none starves because another is chosen. What lies behind a wrong token, or
beyond the committed ones, was not tested and teaches nothing.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence

from engine.draft.ngrams import Ending, num_common

FORGETTING = 1 - 1 / 32
"""Weight of all earlier tests when another one comes: about 32 of them count."""

PRIOR_TESTS = 4.0
"""Tests that a prior weighs as much as, before it is forgotten as tests are."""

CHAIN_PRIOR = 0.75
"""Chance of the first token of a drafter with weights, before any test: a guess."""

CHAIN_DEPTH_PRIOR = 0.9
"""Chance of a depth over that of the depth before, where it was not tested: a guess."""

LOOKUP_PRIORS = {
    2: 0.3, 3: 0.4, 4: 0.5, 6: 0.6, 8: 0.75, 12: 0.85, 16: 0.9, 24: 0.93, 32: 0.95,
}  # fmt: skip
"""Tokens that an ending has in common with an earlier one -> chance of what followed there, for so
many and more, before any test: guesses. Lookup finds none of fewer."""

LONGEST_ENDING = max(LOOKUP_PRIORS)
"""Tokens in common beyond which nothing is told apart."""

_CLASSES = [
    max(bisect_right(tuple(LOOKUP_PRIORS), length) - 1, 0) for length in range(LONGEST_ENDING + 1)
]

FIRST_GAPS = {"mtp": 8, "dflash2": 32}
"""Rounds until a drafter that does not pay is tried again: a block costs what several steps do."""

LONGEST_GAP = 512


class Chance:
    """The share of right proposals; a test counts less with each one that follows it."""

    __slots__ = ("_hits", "_prior_tests", "_tests")

    def __init__(self) -> None:
        self._hits = self._tests = 0.0
        self._prior_tests = PRIOR_TESTS

    def given(self, prior: float) -> float:
        """The chance, where ``prior`` was believed before the first test."""
        weighed = self._hits + self._prior_tests * prior
        return weighed / (self._tests + self._prior_tests)

    def note(self, *, hit: bool) -> None:
        """Take in a test."""
        self._hits = self._hits * FORGETTING + hit
        self._tests = self._tests * FORGETTING + 1
        self._prior_tests *= FORGETTING


class Calibration:
    """Chances of all drafters in one conversation, and when to try again those that rest.

    Attributes:
        probes: of each drafter with weights; lookup needs none: it is scored in every round.

    Args:
        num_tokens: of each drafter with weights, the most tokens of its chain.
    """

    def __init__(self, num_tokens: Mapping[str, int]) -> None:
        self.probes = {name: Probe(FIRST_GAPS[name]) for name in num_tokens}
        self._chains = {
            name: [Chance() for _ in range(number)] for name, number in num_tokens.items()
        }
        self._lookup = [Chance() for _ in LOOKUP_PRIORS]

    def chain_chances(self, drafter: str) -> list[float]:
        """Chance of each place of a drafter's chain, where the places before it are right."""
        chances: list[float] = []
        prior = CHAIN_PRIOR
        for one in self._chains[drafter]:
            chances.append(one.given(prior))
            prior = chances[-1] * CHAIN_DEPTH_PRIOR
        return chances

    def lookup_chances(self) -> list[float]:
        """Chance of what followed an earlier ending, by tokens in common, 0 to ``LONGEST_ENDING``.

        A copy that goes on has one more token in common each time, so a deeper token has the chance
        of a longer ending, where the tokens before it are right.
        """
        priors = LOOKUP_PRIORS.values()
        by_class = [one.given(prior) for one, prior in zip(self._lookup, priors, strict=True)]
        return [by_class[one] for one in _CLASSES]

    def learn_chain(self, drafter: str, token_ids: Sequence[int], committed: Sequence[int]) -> int:
        """Score a drafter's chain against what was committed after it was made.

        Returns:
            Tokens that were right.
        """
        places = self._chains[drafter]
        right = num_common(token_ids, committed)
        for depth in range(min(right + 1, len(token_ids), len(committed))):
            places[depth].note(hit=depth < right)
        return right

    def learn_lookup(self, endings: Sequence[Ending], committed: Sequence[int]) -> None:
        """Score what lookup found, the longest ending first, against what was committed."""
        for depth, chosen in enumerate(committed):
            endings = [one for one in endings if depth < len(one.continuation)]
            if not endings:
                return
            longest = min(endings[0].length + depth, LONGEST_ENDING)
            endings = [one for one in endings if one.continuation[depth] == chosen]
            self._lookup[_CLASSES[longest]].note(hit=bool(endings))


class Probe:
    """When a drafter that does not pay is tried again: after twice as many rounds each time.

    Args:
        first_gap: rounds until the first try.
    """

    def __init__(self, first_gap: int) -> None:
        self._first_gap = self._gap = first_gap
        self._num_rested = 0

    @property
    def is_due(self) -> bool:
        """Whether to try the drafter in the next round in which it does not pay."""
        return self._num_rested + 1 >= self._gap

    def pays(self) -> None:
        """The drafter pays: should it cease to, it is soon tried again."""
        self._gap, self._num_rested = self._first_gap, 0

    def rests(self) -> None:
        """Count a round in which the drafter does not pay and is not tried."""
        self._num_rested += 1

    def is_tried(self) -> None:
        """The drafter does not pay and runs: next time it is tried later."""
        self._gap, self._num_rested = min(self._gap * 2, LONGEST_GAP), 0

    def was_right(self) -> None:
        """The try went better than what was chosen, so another one comes at once."""
        self._gap, self._num_rested = 1, 0
