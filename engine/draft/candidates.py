"""The tokens that a round may propose: an MTP chain and lookup's endings, joined into one tree."""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field

from engine.draft.calibration import LONGEST_ENDING
from engine.draft.ngrams import Ending

WEIGHT_OF_THE_NEXT = 0.5
"""Weight of an ending over that of the one ranked before it, where they go on differently."""

LEAST_CHANCE = 0.01
"""A token that is right less often pays nowhere: one more row makes a round 1 % dearer or more."""


Endings = Sequence[Ending]
"""Places that agree so far, the best first."""


@dataclass(slots=True)
class Candidates:
    """Tokens of a tree, the likeliest first, so that every beginning of the lists is a tree.

    Attributes:
        token_ids: of rows 1, 2, ...
        parents: row that each follows; 0 is the newest committed token.
        depths: tokens on the way from row 0, itself counted.
        chances: that the target takes each, with all on the way to it; never rising.
        by_mtp: whether the head proposed each.
        by_lookup: whether lookup did.
    """

    token_ids: list[int] = field(default_factory=list[int])
    parents: list[int] = field(default_factory=list[int])
    depths: list[int] = field(default_factory=list[int])
    chances: list[float] = field(default_factory=list[float])
    by_mtp: list[bool] = field(default_factory=list[bool])
    by_lookup: list[bool] = field(default_factory=list[bool])

    def __len__(self) -> int:
        """Tokens."""
        return len(self.token_ids)

    def drafter(self, num_tokens: int) -> str:
        """Who proposed the first ``num_tokens``, as ``engine.records`` names it."""
        names = (("mtp", self.by_mtp), ("lookup", self.by_lookup))
        return "+".join(name for name, by in names if any(by[:num_tokens])) or "off"


def grow(
    chain: Sequence[int],
    chain_chances: Sequence[float],
    endings: Sequence[Ending],
    ending_chances: Sequence[float],
    num_tokens: int,
) -> Candidates:
    """Join proposals where they agree, and take the likeliest tokens.

    Chain and endings are taken as independent: a token of both is missed only if both are wrong.
    Where they differ and their chances exceed 1, each is scaled down.

    Args:
        chain: of the MTP head; may be empty.
        chain_chances: of each of its tokens, where those before it are right.
        endings: of lookup, the best first; may be empty.
        ending_chances: by tokens in common, 0 to ``LONGEST_ENDING``.
        num_tokens: most tokens of the tree.
    """
    return _Growth(chain, chain_chances, ending_chances).upto(endings, num_tokens)


class _Growth:
    """A tree that grows at its likeliest place."""

    def __init__(
        self,
        chain: Sequence[int],
        chain_chances: Sequence[float],
        ending_chances: Sequence[float],
    ) -> None:
        self._chain = chain
        self._chain_chances = chain_chances
        self._ending_chances = ending_chances
        # (-chance, order of arrival, token, by_mtp, row it follows, endings that share it, depth)
        self._waiting: list[tuple[float, int, int, bool, int, Endings, int]] = []
        self._num_seen = 0

    def upto(self, endings: Endings, num_tokens: int) -> Candidates:
        """Grow from the newest committed token to at most ``num_tokens``."""
        tree = Candidates()
        self._spread(0, 0, endings, 1.0, on_chain=True)
        while self._waiting and len(tree) < num_tokens:
            less_chance, _, token_id, by_mtp, parent, found, depth = heapq.heappop(self._waiting)
            tree.token_ids.append(token_id)
            tree.parents.append(parent)
            tree.depths.append(depth)
            tree.chances.append(-less_chance)
            tree.by_mtp.append(by_mtp)
            tree.by_lookup.append(bool(found))
            self._spread(len(tree), depth, found, -less_chance, on_chain=by_mtp)
        return tree

    def _spread(
        self, row: int, depth: int, found: Endings, chance: float, *, on_chain: bool
    ) -> None:
        """Let what is proposed to follow a row wait for its turn."""
        drafted = self._chain[depth] if on_chain and depth < len(self._chain) else None
        if drafted is None and len(found) == 1:  # as below, for most tokens of most trees
            if depth < len(found[0].continuation):
                known = self._ending_chances[min(found[0].length + depth, LONGEST_ENDING)]
                token_id = found[0].continuation[depth]
                self._add(chance * known, token_id, False, row, found, depth + 1)
            return
        sharing = _by_token(found, depth)
        chances = _shares(found, depth, sharing, self._ending_chances)
        if drafted is not None:
            missed = 1.0 - chances.get(drafted, 0.0)
            chances[drafted] = 1.0 - missed * (1.0 - self._chain_chances[depth])
        too_much = max(sum(chances.values()), 1.0)
        for token_id, one in chances.items():
            by_mtp, shared = token_id == drafted, sharing.get(token_id, [])
            self._add(chance * one / too_much, token_id, by_mtp, row, shared, depth + 1)

    def _add(
        self, chance: float, token_id: int, by_mtp: bool, row: int, found: Endings, depth: int
    ) -> None:
        if chance >= LEAST_CHANCE:
            one = (-chance, self._num_seen, token_id, by_mtp, row, found, depth)
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
