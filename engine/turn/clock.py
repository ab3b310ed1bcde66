"""Split a round's time among its phases, so that they add up to the round."""

import time

import torch

from engine.records import PHASES


def wait_for(device: torch.device) -> None:
    """Wait until a GPU has done what was asked of it; a CPU always has."""
    if device.type == "cuda":
        torch.cuda.synchronize()


class PhaseClock:
    """Times one round; exactly one phase runs at any moment, ``draft`` first.

    Args:
        device: where the work runs. A GPU is waited for at every change of phase, so that its work
            counts where it was asked for and not where its result is first read.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._ms: dict[str, float] = dict.fromkeys(PHASES, 0.0)
        self._phase: str = PHASES[0]
        self.began_s = self._since_s = time.perf_counter()

    def enter(self, phase: str) -> None:
        """End the running phase and begin ``phase``."""
        wait_for(self._device)
        now_s = time.perf_counter()
        self._ms[self._phase] += (now_s - self._since_s) * 1e3
        self._phase, self._since_s = phase, now_s

    def stop(self) -> dict[str, float]:
        """End the round; milliseconds by phase."""
        self.enter(self._phase)
        return self._ms
