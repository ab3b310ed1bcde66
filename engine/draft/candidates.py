"""The tokens that a round may propose: drafters' chains and lookup's endings joined to a tree."""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate, repeat
from operator import mul

from engine.draft.calibration import LONGEST_ENDING
from engine.draft.ngrams import Ending

WEIGHT_OF_THE_NEXT = 0.5
"""Weight of an ending over that of the one ranked before it, where they go on differently."""

LEAST_CHANCE = 0.01
"""A token that is right less often pays nowhere: one more row makes a round 1 % dearer or more."""


Endings = Sequence[Ending]
"""Places that agree so far, the best first."""

NAMES = ("mtp", "dflash2", "lookup")
"""Who proposes, in the order in which a round names them."""


@dataclass(frozen=True, slots=True)
class Chain:
    """What a drafter with weights of its own expects to follow.

    Attributes:
        drafter: "mtp" or "dflash2".
        token_ids: each follows the one before.
        chances: of each token, where those before it are right; as many or more.
    """

    drafter: str
    token_ids: Sequence[int]
    chances: Sequence[float]


Chains = tuple[Chain, ...]
"""Those that agree so far."""


@dataclass(slots=True)
class Candidates:
    """Tokens of a tree, the likeliest first, so that every beginning of the lists is a tree.

    Attributes:
        token_ids: of rows 1, 2, ...
        parents: row that each follows; 0 is the newest committed token.
        depths: tokens on the way from row 0, itself counted.
        chances: that the target takes each, with all on the way to it; never rising.
        sources: the chains and the endings that proposed each.
    """

    token_ids: list[int] = field(default_factory=list[int])
    parents: list[int] = field(default_factory=list[int])
    depths: list[int] = field(default_factory=list[int])
    chances: list[float] = field(default_factory=list[float])
    sources: list[tuple[Chains, Endings]] = field(default_factory=list[tuple[Chains, Endings]])

    def __len__(self) -> int:
        """Tokens."""
        return len(self.token_ids)

    def drafter(self, num_tokens: int) -> str:
        """Who proposed the first ``num_tokens``, as ``engine.records`` names it."""
        sources = self.sources[:num_tokens]
        said = {one.drafter for chains, _ in sources for one in chains}
        said |= {"lookup"} if any(endings for _, endings in sources) else set()
        return "+".join(name for name in NAMES if name in said) or "off"

    def chain_length(self) -> int:
        """How many of the first tokens follow each other without a branch."""
        for row, parent in enumerate(self.parents):
            if row != parent:
                return row
        return len(self.parents)


def grow(
    chains: Sequence[Chain],
    endings: Sequence[Ending],
    ending_chances: Sequence[float],
    num_tokens: int,
) -> Candidates:
    """Join proposals where they agree, and take the likeliest tokens.

    Chains and endings are taken as independent: a token of several is missed only if all are
    wrong. Where they differ and their chances exceed 1, each is scaled down.

    Args:
        chains: of drafters with weights; may be none.
        endings: of lookup, the best first; may be empty.
        ending_chances: by tokens in common, 0 to ``LONGEST_ENDING``.
        num_tokens: most tokens of the tree.
    """
    if not chains and len(endings) == 1:
        return _copy(endings[0], ending_chances, num_tokens)
    return _Growth(ending_chances).upto(tuple(chains), endings, num_tokens)


def _copy(ending: Ending, ending_chances: Sequence[float], num_tokens: int) -> Candidates:
    """What `grow` says of one ending alone, as in most rounds of a copy: a chain."""
    token_ids = ending.continuation[:num_tokens]
    known = [*ending_chances[ending.length :], *repeat(ending_chances[-1], len(token_ids))]
    chances: list[float] = list(accumulate(known[: len(token_ids)], mul))
    while chances and chances[-1] < LEAST_CHANCE:
        chances.pop()
    number = len(chances)
    return Candidates(
        token_ids=list(token_ids[:number]),
        parents=list(range(number)),
        depths=list(range(1, number + 1)),
        chances=chances,
        sources=[((), (ending,))] * number,
    )


class _Growth:
    """A tree that grows at its likeliest place."""

    def __init__(self, ending_chances: Sequence[float]) -> None:
        self._ending_chances = ending_chances
        # (-chance, order of arrival, token, row it follows, chains and endings with it, depth)
        self._waiting: list[tuple[float, int, int, int, Chains, Endings, int]] = []
        self._num_seen = 0

    def upto(self, chains: Chains, endings: Endings, num_tokens: int) -> Candidates:
        """Grow from the newest committed token to at most ``num_tokens``."""
        tree = Candidates()
        self._spread(0, 0, chains, endings, 1.0)
        for row in range(1, num_tokens + 1):
            if not self._waiting:
                break
            less_chance, _, token_id, parent, chains, found, depth = heapq.heappop(self._waiting)
            tree.token_ids.append(token_id)
            tree.parents.append(parent)
            tree.depths.append(depth)
            tree.chances.append(-less_chance)
            tree.sources.append((chains, found))
            self._spread(row, depth, chains, found, -less_chance)
        return tree

    def _spread(self, row: int, depth: int, chains: Chains, found: Endings, chance: float) -> None:
        """Let what is proposed to follow a row wait for its turn."""
        if chains:
            chains = tuple([one for one in chains if depth < len(one.token_ids)])
        if not chains and len(found) == 1:  # as below, for most tokens of most trees
            (one,) = found
            if depth < len(one.continuation):
                chance *= self._ending_chances[min(one.length + depth, LONGEST_ENDING)]
                self._add(chance, one.continuation[depth], row, (), found, depth + 1)
            return
        sharing = _by_token(found, depth)
        chances = _shares(found, depth, sharing, self._ending_chances)
        for one in chains:
            token_id = one.token_ids[depth]
            missed = 1.0 - chances.get(token_id, 0.0)
            chances[token_id] = 1.0 - missed * (1.0 - one.chances[depth])
        too_much = max(sum(chances.values()), 1.0)
        for token_id, one in chances.items():
            agreeing = chains and tuple(
                [each for each in chains if each.token_ids[depth] == token_id]
            )
            shared = sharing.get(token_id, ())
            self._add(chance * one / too_much, token_id, row, agreeing, shared, depth + 1)

    def _add(
        self, chance: float, token_id: int, row: int, chains: Chains, found: Endings, depth: int
    ) -> None:
        if chance >= LEAST_CHANCE:
            one = (-chance, self._num_seen, token_id, row, chains, found, depth)
            heapq.heappush(self._waiting, one)
            self._num_seen += 1


def _by_token(endings: Endings, depth: int) -> dict[int, list[Ending]]:
    """Endings by the token they go on with at ``depth``."""
    sharing: dict[int, list[Ending]] = {}
    for one in endings:
        if depth < len(one.continuation):
            sharing.setdefault(one.continuation[depth], []).append(one)
    return sharing


def _shares(
    endings: Endings,
    depth: int,
    sharing: dict[int, list[Ending]],
    ending_chances: Sequence[float],
) -> dict[int, float]:
    """Divide the chance that any ending is right among the tokens, by their endings' ranks."""
    if not sharing:
        return {}
    chance = ending_chances[min(endings[0].length + depth, LONGEST_ENDING)]
    if len(sharing) == 1:
        return dict.fromkeys(sharing, chance)
    weights = dict.fromkeys(sharing, 0.0)
    for rank, one in enumerate(endings):
        if depth < len(one.continuation):
            weights[one.continuation[depth]] += WEIGHT_OF_THE_NEXT**rank
    total = sum(weights.values())
    return {token_id: chance * weight / total for token_id, weight in weights.items()}
