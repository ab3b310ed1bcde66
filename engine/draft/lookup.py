"""Draft what followed before: copy from the prompt, the session and the answer so far."""

import heapq
from collections.abc import Sequence

from engine.draft.draft import Draft, Foreseen
from engine.draft.drafter import Drafter, Room
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
        self._num_read = -1  # tokens of the answer that are indexed; not even the prompt
        self._newest: list[Ending] = []
        self._guess: tuple[int, ...] = ()
        self._guessed: list[Ending] = []
        self._num_guessed = 0
        self._draft = Draft.chain(())

    def propose(self, token_id: int, num_generated: int, num_tokens: int) -> Draft:  # noqa: ARG002
        """Propose ``num_tokens``, or nothing when no ending stood before."""
        self._draft = self._drafted(self.endings(num_tokens), num_tokens)
        return self._draft

    def prepare(self, num_generated: int, room_behind: Room) -> Foreseen | None:  # noqa: ARG002
        """Foresee that a copy goes on; see ``Drafter``."""
        guess, endings = self.guess(self._draft, room_behind)
        return Foreseen(guess, self._drafted(endings, self._num_guessed)) if endings else None

    def endings(self, num_tokens: int) -> list[Ending]:
        """Where the text ended so before, the best ``MAX_CONTINUATIONS`` places first."""
        new = tuple(self._answer_ids[max(self._num_read, 0) :])
        guess, self._guess = self._guess, ()
        if new and new == guess and num_tokens == self._num_guessed:
            self._num_read += len(new)
            self._newest = self._guessed
            return self._newest
        self._read_on(new)
        self._newest = self._index.endings(num_tokens)[:MAX_CONTINUATIONS]
        return self._newest

    def guess(self, draft: Draft, room_behind: Room) -> tuple[tuple[int, ...], list[Ending]]:
        """What a round commits if the text goes on as the best place did, and `endings` then.

        Args:
            draft: of the round, from the newest `endings`.
            room_behind: as `prepare` takes it.

        Returns:
            Nothing where the text stood nowhere before, or there is no room.
        """
        self._guess, self._guessed = (), []
        if not self._newest or len(self._answer_ids) != self._num_read:
            return (), []
        accepted = draft.path_along(self._newest[0].continuation)
        self._index.extend(accepted)
        after = self._index.endings(1)
        num_tokens = room_behind(len(accepted) + 1)
        if not after or num_tokens < 1:
            return (), []
        self._index.extend(after[0].continuation)
        self._guess, self._num_guessed = (*accepted, *after[0].continuation), num_tokens
        self._guessed = self._index.endings(num_tokens)[:MAX_CONTINUATIONS]
        return self._guess, self._guessed

    def _drafted(self, endings: Sequence[Ending], num_tokens: int) -> Draft:
        continuations = [one.continuation for one in endings]
        if not continuations:
            return Draft.chain(())
        if self._branches and len(continuations) > 1:
            return grow_tree(continuations, num_tokens)
        return Draft.chain(continuations[0])

    def _read_on(self, new: Sequence[int]) -> None:
        """Index what was committed since the last proposal; the prompt at the first."""
        if self._num_read < 0:  # not before: the first token does not wait for it
            self._index.become(self._prompt_ids)
            self._num_read = 0
        self._index.become(new, len(self._prompt_ids) + self._num_read)
        self._num_read += len(new)


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
        if len(members) == 1:  # as below, for most tokens of most trees
            heapq.heappush(waiting, (-chance, num_seen, row, depth, members))
            num_seen += 1
            return
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
