"""Draft what followed before: copy from the prompt, the session and the answer so far."""

import heapq
from collections.abc import Sequence

from engine.draft.draft import Draft
from engine.draft.drafter import Drafter
from engine.draft.ngrams import Ending, NgramIndex

MAX_CONTINUATIONS = 4
"""Continuations that are looked at."""

TRUST_AFTER_A_TOKEN = 0.9
"""Chance that a copy which was right goes on being right."""

TRUST_IN_THE_NEXT = 0.5
"""Weight of a continuation over that of the one ranked before it."""


class LookupDrafter(Drafter):
    """Proposes what followed the longest ending of the conversation that stood in it before.

    It knows the conversation and nothing else, so that what it proposes never depends on what was
    asked before.

    Args:
        index: of an earlier turn of the conversation, or of any other: the common beginning counts.
        prompt_ids: the whole prompt.
        answer_ids: what the turn has committed, as it grows.
        branches: places that went on differently share a tree; else the best one makes a chain.
    """

    name = "lookup"

    def __init__(
        self,
        index: NgramIndex,
        prompt_ids: Sequence[int],
        answer_ids: Sequence[int],
        *,
        branches: bool,
    ) -> None:
        self._index = index
        self._prompt_ids = prompt_ids
        self._answer_ids = answer_ids
        self._branches = branches
        self._knows_prompt = False

    def propose(self, token_id: int, num_generated: int, num_tokens: int) -> Draft:  # noqa: ARG002
        """Propose ``num_tokens``, or nothing when no ending stood before."""
        continuations = [one.continuation for one in self.endings(num_tokens)]
        if not continuations:
            return Draft.chain(())
        if self._branches and len(continuations) > 1:
            return grow_tree(continuations, num_tokens)
        return Draft.chain(continuations[0])

    def endings(self, num_tokens: int) -> list[Ending]:
        """Where the text ended so before, the best ``MAX_CONTINUATIONS`` places first."""
        self._read_on()
        return self._index.endings(num_tokens)[:MAX_CONTINUATIONS]

    def _read_on(self) -> None:
        """Index what was committed since the last proposal; the prompt at the first."""
        if not self._knows_prompt:  # not before: the first token does not wait for it
            self._index.become(self._prompt_ids)
            self._knows_prompt = True
        self._index.extend(self._answer_ids[len(self._index) - len(self._prompt_ids) :])


def grow_tree(continuations: Sequence[tuple[int, ...]], num_tokens: int) -> Draft:
    """Join continuations where they agree, and take the likeliest tokens.

    Args:
        continuations: no two alike, each of ``num_tokens``, the best first.
        num_tokens: of the tree.
    """
    weights = [TRUST_IN_THE_NEXT**rank for rank in range(len(continuations))]
    token_ids: list[int] = []
    parents: list[int] = []
    # (-chance, order of arrival, row it follows, depth, the continuations that share it)
    waiting: list[tuple[float, int, int, int, list[int]]] = []
    num_seen = 0

    def branch(row: int, depth: int, chance: float, members: list[int]) -> None:
        nonlocal num_seen
        by_token: dict[int, list[int]] = {}
        for one in members:
            by_token.setdefault(continuations[one][depth], []).append(one)
        total = sum(weights[one] for one in members)
        for sharing in by_token.values():
            share = sum(weights[one] for one in sharing) / total
            heapq.heappush(waiting, (-chance * share, num_seen, row, depth, sharing))
            num_seen += 1

    branch(0, 0, 1.0, list(range(len(continuations))))
    while len(token_ids) < num_tokens:
        less_chance, _, parent, depth, members = heapq.heappop(waiting)
        token_ids.append(continuations[members[0]][depth])
        parents.append(parent)
        if depth + 1 < num_tokens:
            branch(len(token_ids), depth + 1, -less_chance * TRUST_AFTER_A_TOKEN, members)
    return Draft.tree(token_ids, parents)
