"""Sweep the launch tiles of one entry and choose the one that serves.

A tile may change time alone: it is timed only when its outputs have the bits of the present tile's,
and it is kept only when the family's proofs hold with it, row-alone at every row count among them,
and it is faster again when timed in turn with the present one.
"""

import time
from collections.abc import Callable, Sequence
from functools import partial

from engine.check.families import RedKernelError, first_fault, prove
from engine.machine.facts import cache_bytes
from engine.tune.entries import Entry, Outcome, ratio
from kernels.common.case import Outputs, Tensors
from kernels.common.problem import Problem, Tile
from kernels.common.proofs import SEED, different
from kernels.common.timing import Timing, num_cold_copies

MIN_GAIN = 0.02
"""Share of the time that another tile must save: less is within the spread of a measurement."""

Timer = Callable[[Sequence[Callable[[], object]], str], Timing]

Calls = Sequence[Sequence[Callable[[Tile], object]]]
"""What is timed: for each problem of an entry, calls to rotate."""


class EntrySweep:
    """Sweep the tiles of an entry: `run` once.

    Args:
        entry: its present tile is what others are compared with.
        device: where kernels run.
        timer: times a rotation of calls.
        deadline: `time.monotonic` after which no other tile is tried.
    """

    def __init__(self, entry: Entry, device: str, timer: Timer, deadline: float) -> None:
        self._entry, self._device = entry, device
        self._timer, self._deadline = timer, deadline
        self._inputs = entry.case.draw(SEED, device)
        self._outcome = Outcome(entry, entry.present)

    def run(self) -> Outcome:
        """Prove, time, choose.

        Raises:
            RedKernelError: the tile that serves now is red; nothing can be compared with it.
        """
        entry = self._entry
        if fault := self._unproven(entry.present):
            raise RedKernelError(
                f"{entry.family.name} {entry.label} is red and is not tuned: {fault}.",
                f"See 'qwen38 check --family {entry.family.name}'.",
            )
        if entry.tunable.compile is not None:
            entry.tunable.compile(entry.problems[0], entry.candidates)
        calls = [self._make_calls(problem) for problem in entry.problems]
        self._choose(calls, self._time_candidates(calls))
        return self._outcome

    def _time_candidates(self, calls: Calls) -> dict[Tile, tuple[float, ...]]:
        """Time the present tile, then all that have its bits; what does not launch drops out."""
        present = self._entry.present
        wanted = self._outputs(present).tensors
        times = {present: self._time(calls, present)}
        for tile in self._entry.candidates[1:]:
            if time.monotonic() > self._deadline:
                break
            try:
                fault = self._differing(tile, wanted)
                if fault is None:
                    times[tile] = self._time(calls, tile)
            except Exception as problem:  # noqa: BLE001  whatever a tile trips over, it drops out
                fault = f"{type(problem).__name__}: {problem}"
            if fault is not None:
                self._outcome.dropped.append((tile, fault))
        self._outcome.num_timed = len(times)
        return times

    def _choose(self, calls: Calls, times: dict[Tile, tuple[float, ...]]) -> None:
        """Take the fastest tile that holds; what fails its proof or second timing drops out."""
        outcome, present = self._outcome, self._entry.present
        gains = {tile: 1 - ratio(us, times[present]) for tile, us in times.items()}
        for tile in sorted(times, key=lambda one: -gains[one]):
            if gains[tile] <= MIN_GAIN:
                break
            fault = self._unproven(tile)
            if fault is None:
                before, after = self._time(calls, present), self._time(calls, tile)
                if 1 - ratio(after, before) > MIN_GAIN:
                    outcome.tile, outcome.before_us, outcome.us = tile, before, after
                    return
                fault = "no faster when it was timed again"
            outcome.dropped.append((tile, fault))
        outcome.before_us = outcome.us = times[present]

    def _make_calls(self, problem: Problem) -> Sequence[Callable[[Tile], object]]:
        copies = num_cold_copies(problem.num_bytes, cache_bytes(self._device))
        return problem.make_calls(copies, self._device)

    def _time(self, calls: Calls, tile: Tile) -> tuple[float, ...]:
        return tuple(
            self._timer([partial(call, tile) for call in rotation], self._device).median_us
            for rotation in calls
        )

    def _unproven(self, tile: Tile) -> str | None:
        entry = self._entry
        return first_fault(prove(entry.family, entry.case, self._device, entry.tunable.run, tile))

    def _outputs(self, tile: Tile) -> Outputs:
        outputs = self._entry.case.poisoned_outputs(self._device)
        self._entry.tunable.run(self._inputs, outputs.tensors, tile)
        return outputs

    def _differing(self, tile: Tile, wanted: Tensors) -> str | None:
        """Say where a tile leaves the bits of the present one, or writes outside its outputs."""
        outputs = self._outputs(tile)
        faults = different(self._entry.case, outputs.tensors, wanted)
        if fault := next((one for one in faults if one), None):
            return f"it changes bits, which is a fault of the kernel: {fault}"
        return outputs.written_outside()
