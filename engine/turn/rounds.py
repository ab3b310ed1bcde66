"""Keep a device at work: the next round is on its way before what came of one is told."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import torch

from engine.draft.draft import Draft
from engine.turn.clock import PhaseClock
from engine.turn.verify import Commit, Course, Launched, Verified, Verifier


@dataclass(frozen=True, slots=True)
class Round:
    """A round that has been taken in: what it verified, what came of it, its time."""

    draft: Draft
    verified: Verified
    clock: PhaseClock


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

    @property
    def are_under_way(self) -> bool:
        """Whether a round was launched that nobody has waited for."""
        return bool(self._on_their_way)

    @property
    def oldest(self) -> Draft:
        """What the round verifies that `take` waits for."""
        return self._on_their_way[0].draft

    def launch(self, token_id: int, propose: Callable[[], Draft], room: int) -> None:
        """Launch a round behind those that were taken in.

        Args:
            token_id: the newest committed token.
            propose: makes the draft, which is this round's time.
            room: tokens that the turn may still commit.
        """
        clock = self._clock.next() if self._clock is not None else PhaseClock(self._device)
        launched = self._verifier.launch(self._course, token_id, propose(), room, clock)
        self._on_their_way.append(launched)

    def launch_ahead(self) -> None:
        """Launch a plain round behind the newest one, where that needs nothing that it brings."""
        behind = self._verifier.launch_behind(self._on_their_way[-1])
        if behind is not None:
            self._on_their_way.append(behind)

    def take(self, commit: Commit) -> Round:
        """Wait for the oldest round on its way, and take it in."""
        launched = self._on_their_way.popleft()
        verified = launched.wait(commit)
        self._clock = launched.clock
        return Round(launched.draft, verified, launched.clock)

    def drop(self) -> None:
        """Take nothing of what is on its way; nobody waits for it."""
        while self._on_their_way:
            self._on_their_way.pop().drop()
