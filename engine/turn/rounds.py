"""Keep a device at work: the next round is on its way before what came of one is told."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from engine.draft.draft import Draft, Foreseen
from engine.turn.clock import PhaseClock, clock_for
from engine.turn.verify import Commit, Course, Launched, Verified, Verifier


@dataclass(frozen=True, slots=True)
class Round:
    """A round that has been taken in: what it verified, what came of it, its time.

    ``was_ready`` when it was got ready before the round before had ended, and ``went_as_foreseen``
    when the one that was got ready for that is on its way.
    """

    draft: Draft
    verified: Verified
    clock: PhaseClock
    was_ready: bool
    went_as_foreseen: bool


class Rounds:
    """The rounds of a turn, in order.

    Two are on their way at most: one that is waited for, and a plain one behind it.

    Args:
        verifier: computes them.
        course: what they have in common.
        device: where they run.
    """

    def __init__(self, verifier: Verifier, course: Course, device: torch.device) -> None:
        self._verifier = verifier
        self._course = course
        self._on_their_way: deque[Launched] = deque()
        self._device = device
        self._clock: PhaseClock | None = None
        self._ready: Any = None
        self._was_ready: Launched | None = None

    @property
    def are_under_way(self) -> bool:
        """Whether a round was launched that nobody has waited for."""
        return bool(self._on_their_way)

    @property
    def num_under_way(self) -> int:
        """Rounds that were launched and that nobody has waited for: 0, 1 or 2."""
        return len(self._on_their_way)

    @property
    def oldest(self) -> Draft:
        """What the round verifies that `take` waits for."""
        return self._on_their_way[0].draft

    def launch(self, token_id: int, propose: Callable[[], Draft], room: int) -> torch.Tensor | None:
        """Launch a round behind those that were taken in.

        Args:
            token_id: the newest committed token.
            propose: makes the draft, which is this round's time.
            room: tokens that the turn may still commit.

        Returns:
            Where its rows will stand; see ``engine.turn.verify.Launched``.
        """
        clock = self._clock.next() if self._clock is not None else clock_for(self._device)
        launched = self._verifier.launch(self._course, token_id, propose(), room, clock)
        self._on_their_way.append(launched)
        return launched.hidden

    def launch_ahead(self) -> None:
        """Launch a plain round behind the newest one, where that needs nothing that it brings."""
        behind = self._verifier.launch_behind(self._on_their_way[-1])
        if behind is not None:
            self._on_their_way.append(behind)

    def foresee(self, foreseen: Foreseen) -> None:
        """Get the round ready that follows if the only one on its way goes as foreseen."""
        (launched,) = self._on_their_way
        self._ready = self._verifier.get_ready(launched, *foreseen)

    def take(self, commit: Commit) -> Round:
        """Wait for the oldest round on its way, and take it in; what is ready goes first."""
        launched = self._on_their_way.popleft()
        following, ready = None, self._ready
        self._ready = None
        if ready is not None:
            following = self._verifier.launch_ready(ready)
        if following is not None:
            self._on_their_way.append(following)
        was_ready, self._was_ready = launched is self._was_ready, following
        verified = launched.wait(commit)
        self._clock = launched.clock
        return Round(launched.draft, verified, launched.clock, was_ready, following is not None)

    def drop(self) -> None:
        """Take nothing of what is on its way; nobody waits for it."""
        while self._on_their_way:
            self._on_their_way.pop().drop()
