"""Draft with DFlash2: candidates of all places at once, and a walk or a tree through them."""

import heapq
import math
from dataclasses import dataclass, replace

import torch

from engine.dflash.block import Dflash, Lattice, window_classes
from engine.draft.candidates import LEAST_CHANCE
from engine.draft.draft import Draft
from engine.draft.drafter import Drafter
from engine.model.taps import Taps
from kernels.common.round import MAX_ROWS

MAX_WAITING_ROWS = 256
"""Rows of the target that may wait for the drafter: 13 MB at the 27B's width and five layers."""


@dataclass(frozen=True, slots=True)
class DflashSource:
    """The drafter of a model, and where the model leaves what it reads."""

    drafter: Dflash
    taps: Taps


class DflashRows:
    """The drafter's keys and values for the conversation, kept up with the target's rows.

    Rows that the target has computed wait until a proposal needs them, or until there are
    ``MAX_WAITING_ROWS``: the first token does not wait for the drafter, and their memory is
    bounded.

    Args:
        source: drafter and taps.
        max_tokens: longest conversation.
    """

    def __init__(self, source: DflashSource, max_tokens: int) -> None:
        self._drafter = source.drafter
        self._taps = source.taps
        self._state = source.drafter.new_state(max_tokens)
        self._waiting: list[torch.Tensor] = []
        self._num_read = 0

    @property
    def drafter(self) -> Dflash:
        """What proposes."""
        return self._drafter

    @property
    def num_proposals(self) -> int:
        """Tokens that a block proposes."""
        return self._drafter.config.num_proposals

    @property
    def num_read(self) -> int:
        """Positions that the target has read, those that wait among them."""
        return self._num_read

    def follow(self, num_tokens: int) -> None:
        """Take the rows of so many tokens that the target has read behind those before."""
        self._waiting.append(self._taps.take(self._num_read, num_tokens))
        self._num_read += num_tokens
        if self._num_read - self._state.length >= MAX_WAITING_ROWS:
            self._catch_up()

    def propose(self, token_id: int) -> Lattice:
        """Candidates of what follows ``token_id``, the token after the last row."""
        self._catch_up()
        return self._drafter.propose(token_id, self._state)

    def rewind(self, num_tokens: int) -> None:
        """Go back to where the target had read ``num_tokens``."""
        if num_tokens > self._state.length:
            self._catch_up()
        self._waiting.clear()
        self._taps.forget_from(num_tokens)
        self._state.truncate(num_tokens)
        self._num_read = num_tokens

    def warm_up(self, num_tokens: int) -> None:
        """Let the drafter run once for each number of rows to catch up with, and each context.

        Args:
            num_tokens: longest conversation.
        """
        rows = torch.zeros_like(self._taps.buffer[:1])
        for num_rows in range(1, MAX_ROWS + 1):
            self.rewind(0)
            self._drafter.fill(rows.expand(num_rows, -1), self._state)
        for near in window_classes(self._drafter.config):
            missing = min(near, num_tokens) - self._state.length
            self._drafter.fill(rows.expand(missing, -1), self._state)
            self._drafter.propose(0, self._state)
        self.rewind(0)

    def _catch_up(self) -> None:
        if self._waiting:
            self._drafter.fill(torch.cat(self._waiting), self._state)
        self._waiting.clear()


class DflashDrafter(Drafter):
    """Proposes the best walk through a block's candidates, or the likeliest tree of them.

    Args:
        rows: of the conversation.
        branches: propose trees.
    """

    name = "dflash2"
    reads_rows = True

    def __init__(self, rows: DflashRows, *, branches: bool) -> None:
        self._rows = rows
        self._branches = branches

    def propose(self, token_id: int, num_generated: int, num_tokens: int) -> Draft:  # noqa: ARG002
        """Propose up to ``num_tokens``, a chain no more than a block has places."""
        lattice = self._rows.propose(token_id)
        if self._branches:
            draft = Draft.tree(*likeliest(lattice, num_tokens))
        else:
            draft = Draft.chain(walk(lattice, num_tokens))
        moved = self._rows.drafter.moved_bytes(self._rows.num_read)
        return replace(draft, with_block=True, num_bytes=moved)


def walk(lattice: Lattice, num_tokens: int) -> list[int]:
    """Take the best candidate of each place, from left to right, behind the one taken before."""
    token_ids: list[int] = []
    before = 0
    for ids, scores in zip(lattice.ids[:num_tokens], lattice.scores, strict=False):
        row = scores[before]
        if not any(math.isfinite(one) for one in row):
            break  # a row that is no number proposes nothing
        before = max(range(len(row)), key=lambda at: _finite(row[at]))
        token_ids.append(ids[before])
    return token_ids


def likeliest(lattice: Lattice, num_tokens: int) -> tuple[list[int], list[int]]:
    """Grow a tree at its likeliest place; a candidate's chance is its share among those beside it.

    Args:
        lattice: of a block.
        num_tokens: most tokens of the tree.

    Returns:
        Tokens, and the row that each follows: 0 is the newest committed token.
    """
    token_ids: list[int] = []
    parents: list[int] = []
    # (-chance, order of arrival, row it follows, its place, its candidate)
    waiting: list[tuple[float, int, int, int, int]] = []
    num_seen = 0

    def spread(parent: int, place: int, before: int, chance: float) -> None:
        nonlocal num_seen
        if place == len(lattice.ids):
            return
        for at, share in enumerate(_shares(lattice.scores[place][before])):
            if chance * share >= LEAST_CHANCE:
                heapq.heappush(waiting, (-chance * share, num_seen, parent, place, at))
                num_seen += 1

    spread(0, 0, 0, 1.0)
    while waiting and len(token_ids) < num_tokens:
        less_chance, _, parent, place, at = heapq.heappop(waiting)
        token_ids.append(lattice.ids[place][at])
        parents.append(parent)
        spread(len(token_ids), place + 1, at, -less_chance)
    return token_ids, parents


def _shares(scores: list[float]) -> list[float]:
    """The softmax of scores; those that are no numbers have no share."""
    finite = [_finite(one) for one in scores]
    top = max(finite)
    if top == -math.inf:
        return [0.0] * len(scores)
    weights = [math.exp(one - top) for one in finite]
    total = sum(weights)
    return [one / total for one in weights]


def _finite(score: float) -> float:
    return score if math.isfinite(score) else -math.inf
