"""Sweep the tiles of entries that must keep one reduction order, and choose what serves.

A tile is timed only when its outputs have the bits of the others of its order, and it is kept only
when the family's proofs hold with it, row-alone at every row count among them, and it is faster
again when timed in turn with the present one.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import torch

from engine.check.families import RedKernelError, first_fault, prove
from engine.machine.facts import cache_bytes
from engine.tune.entries import Entry, Outcome, ratio
from kernels.common.case import Case, Tensors
from kernels.common.compare import different_bits
from kernels.common.problem import Problem, Tile
from kernels.common.proofs import SEED, beyond_truth
from kernels.common.timing import Timing, num_cold_copies

MIN_GAIN = 0.02
"""Share of the time that another tile must save: less is within the spread of a measurement."""

MIN_GAIN_OF_ORDER = 0.05
"""The same for another reduction order, which changes the bits of every later answer."""

Timer = Callable[[Sequence[Callable[[], object]], str], Timing]


class GroupSweep:
    """Sweep entries that share one reduction order: `run` once, then look at the outcomes.

    Args:
        entries: of one tunable, equal in every key field that the order may depend on.
        device: where kernels run.
        timer: times a rotation of calls.
        deadline: `time.monotonic` after which no other tile is tried.
    """

    def __init__(
        self, entries: Sequence[Entry], device: str, timer: Timer, deadline: float
    ) -> None:
        # the widest first: its outputs hold the rows that the others are compared with
        self._entries = sorted(entries, key=lambda one: -one.case.sizes["T"])
        self._device, self._timer, self._deadline = device, timer, deadline
        self._outcomes = {one: Outcome(one, one.present) for one in self._entries}
        self._times: dict[Entry, dict[Tile, tuple[float, ...]]] = {one: {} for one in entries}
        self._orders: dict[str, Tensors] = {}
        self._proven: set[tuple[Entry, Tile]] = set()
        widest = self._entries[0]
        self._inputs = widest.case.draw(SEED, device)
        self._order_now = widest.tunable.arithmetic(widest.present)

    def run(self) -> list[Outcome]:
        """Prove, time, choose.

        Raises:
            RedKernelError: a tile that serves now is red; nothing can be compared with it.
        """
        for entry in self._entries:
            self._expect_sound(entry)
        for entry in self._entries:
            self._time_candidates(entry)
        chosen = self._choose()
        for entry, tile in chosen.items():
            self._settle(entry, tile)
        return [self._outcomes[one] for one in self._entries]

    def _expect_sound(self, entry: Entry) -> None:
        fault = self._unproven(entry, entry.present) or self._differing(entry, entry.present)
        if entry.tunable.arithmetic(entry.present) != self._order_now:
            fault = f"its order is not that of {self._entries[0].label}"
        if fault:
            raise RedKernelError(
                f"{entry.family.name} {entry.label} is red and is not tuned: {fault}.",
                f"See 'qwen38 check --family {entry.family.name}'.",
            )

    def _time_candidates(self, entry: Entry) -> None:
        calls = [self._make_calls(problem) for problem in entry.problems]
        for tile in entry.candidates:
            if tile != entry.present and time.monotonic() > self._deadline:
                return
            try:
                fault = self._differing(entry, tile)
                if fault is None:
                    self._times[entry][tile] = self._time(calls, tile)
                    self._outcomes[entry].num_timed += 1
            except Exception as problem:  # a tile may fail to compile or to launch
                if tile == entry.present:
                    raise
                fault = f"{type(problem).__name__}: {problem}"
            if fault is not None:
                self._outcomes[entry].dropped.append((tile, fault))

    def _choose(self) -> dict[Entry, Tile]:
        """The best tiles that hold: what fails its proof or its second timing drops out."""
        while True:
            chosen = self._best()
            failing = self._failing(chosen)
            if not failing:
                return chosen
            for entry, tile, why in failing:
                self._outcomes[entry].dropped.append((tile, why))
                del self._times[entry][tile]

    def _best(self) -> dict[Entry, Tile]:
        best_now = self._best_of(self._order_now)
        chosen, bar = best_now, (1 - MIN_GAIN_OF_ORDER) * self._mean(best_now)
        for order in self._orders:
            if order != self._order_now and self._is_complete(order):
                other = self._best_of(order)
                if self._mean(other) < bar:
                    chosen, bar = other, self._mean(other)
        return chosen

    def _best_of(self, order: str) -> dict[Entry, Tile]:
        found: dict[Entry, Tile] = {}
        for entry, times in self._times.items():
            best = min(self._of_order(entry, order), key=lambda one: self._ratio(entry, times[one]))
            is_better = self._ratio(entry, times[best]) < 1 - MIN_GAIN
            found[entry] = best if is_better or order != self._order_now else entry.present
        return found

    def _is_complete(self, order: str) -> bool:
        return all(self._of_order(entry, order) for entry in self._entries)

    def _of_order(self, entry: Entry, order: str) -> list[Tile]:
        return [one for one in self._times[entry] if entry.tunable.arithmetic(one) == order]

    def _mean(self, chosen: Mapping[Entry, Tile]) -> float:
        ratios = [self._ratio(one, self._times[one][tile]) for one, tile in chosen.items()]
        return math.exp(sum(map(math.log, ratios)) / len(ratios))

    def _ratio(self, entry: Entry, us: Sequence[float]) -> float:
        return ratio(us, self._times[entry][entry.present])

    def _failing(self, chosen: Mapping[Entry, Tile]) -> list[tuple[Entry, Tile, str]]:
        changed = [(one, tile) for one, tile in chosen.items() if tile != one.present]
        red = [(one, tile, self._unproven(one, tile)) for one, tile in changed]
        if failing := [(one, tile, fault) for one, tile, fault in red if fault]:
            return failing
        gains: dict[Entry, float] = {}
        for entry, tile in changed:
            before, after = self._time_in_turn(entry, tile)
            self._outcomes[entry].before_us, self._outcomes[entry].us = before, after
            gains[entry] = 1 - ratio(after, before)
        order = next((one.tunable.arithmetic(tile) for one, tile in changed), self._order_now)
        if order == self._order_now:
            why = "no faster when it was timed again"
            return [(one, tile, why) for one, tile in changed if gains[one] <= MIN_GAIN]
        mean = math.exp(sum(math.log(1 - gain) for gain in gains.values()) / len(chosen))
        if mean < 1 - MIN_GAIN_OF_ORDER:
            return []
        why = "its order is no faster when it was timed again"
        return [(one, tile, why) for one in self._entries for tile in self._of_order(one, order)]

    def _settle(self, entry: Entry, tile: Tile) -> None:
        outcome = self._outcomes[entry]
        outcome.tile = tile
        if not outcome.is_changed:
            outcome.before_us = outcome.us = self._times[entry][tile]
        elif (order := entry.tunable.arithmetic(tile)) != self._order_now:
            outcome.arithmetic = order

    def _time_in_turn(
        self, entry: Entry, tile: Tile
    ) -> tuple[tuple[float, ...], tuple[float, ...]]:
        calls = [self._make_calls(problem) for problem in entry.problems]
        return self._time(calls, entry.present), self._time(calls, tile)

    def _make_calls(self, problem: Problem) -> Sequence[Callable[[Tile], object]]:
        copies = num_cold_copies(problem.num_bytes, cache_bytes(self._device))
        return problem.make_calls(copies, self._device)

    def _time(
        self, calls: Sequence[Sequence[Callable[[Tile], object]]], tile: Tile
    ) -> tuple[float, ...]:
        return tuple(
            self._timer([partial(call, tile) for call in rotation], self._device).median_us
            for rotation in calls
        )

    def _unproven(self, entry: Entry, tile: Tile) -> str | None:
        if (entry, tile) in self._proven:
            return None
        found = prove(entry.family, entry.case, self._device, entry.tunable.run, tile)
        fault = first_fault(found)
        if fault is None:
            self._proven.add((entry, tile))
        return fault

    def _differing(self, entry: Entry, tile: Tile) -> str | None:
        """Say where a tile's outputs leave the bits of its order.

        The first tile of an order has none to compare with and must lie within the tolerance.
        """
        case, order = entry.case, entry.tunable.arithmetic(tile)
        num_rows = case.sizes["T"]
        rows = {
            spec.name: _rows(self._inputs[spec.name], spec.axes, num_rows) for spec in case.inputs
        }
        outputs = case.poisoned_outputs(self._device)
        entry.tunable.run(rows, outputs.tensors, tile)
        known = self._orders.get(order)
        fault = _first_difference(case, outputs.tensors, known) if known else None
        if known is None:
            op = entry.family.ops[case.op]
            fault = beyond_truth(op, case, rows, outputs.tensors)
        fault = fault or outputs.written_outside()
        if fault is None and known is None:
            self._orders[order] = outputs.tensors
        return fault


def _rows(tensor: torch.Tensor, axes: Sequence[str], num_rows: int) -> torch.Tensor:
    return tensor[:num_rows] if axes[0] == "T" else tensor


def _first_difference(case: Case, got: Tensors, want: Tensors) -> str | None:
    for spec in case.outputs:
        num_rows = min(len(got[spec.name]), len(want[spec.name]))
        own = _rows(got[spec.name], spec.axes, num_rows)
        other = _rows(want[spec.name], spec.axes, num_rows)
        if fault := different_bits(own, other, spec.axes):
            return f"{spec.name}: {fault}"
    return None
