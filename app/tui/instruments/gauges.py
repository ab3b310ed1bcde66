"""What is read beside the engine's records: the machine's load, the screen's cost."""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from statistics import quantiles

from engine.machine.load import LoadReader, MachineLoad

LOAD_EVERY_S = 1.0
LAG_EVERY_S = 0.05
LAGS_KEPT = 200
"""Ten seconds of them."""


class Gauges:
    """Reads the load in a thread, and how late the event loop is, while the screen is up.

    Lag: how much later than asked the loop ran what it was asked to run, the 95th percentile of the
    last ten seconds. Share: CPU time of the screen's thread over wall time, of the last second.
    """

    def __init__(self, read_load: Callable[[], MachineLoad] | None = None) -> None:
        self._read_load = read_load or LoadReader().read
        self._lags_s: deque[float] = deque(maxlen=LAGS_KEPT)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._before = (0.0, 0.0)
        self._reading: asyncio.Future[MachineLoad] | None = None
        self.load: MachineLoad | None = None
        self.share: float | None = None

    @property
    def lag_p95_ms(self) -> float | None:
        """How late the event loop is, in milliseconds."""
        lags_s = self._lags_s
        return quantiles(lags_s, n=20)[-1] * 1e3 if len(lags_s) > 1 else None

    def start(self) -> None:
        """Begin; called in the event loop's thread."""
        self._loop = asyncio.get_running_loop()
        self._before = (time.perf_counter(), time.thread_time())
        self._watch(self._loop.time())
        self._read()

    def stop(self) -> None:
        """Read no more."""
        self._loop = None

    def _watch(self, due_s: float) -> None:
        if self._loop is None:
            return
        now_s = self._loop.time()
        self._lags_s.append(max(now_s - due_s, 0.0))
        self._loop.call_at(now_s + LAG_EVERY_S, self._watch, now_s + LAG_EVERY_S)

    def _read(self) -> None:
        if self._loop is None:
            return
        now = (time.perf_counter(), time.thread_time())
        (wall_s, cpu_s), self._before = self._before, now
        if now[0] - wall_s > LOAD_EVERY_S / 2:
            self.share = (now[1] - cpu_s) / (now[0] - wall_s)
        if self._reading is None:
            self._reading = self._loop.run_in_executor(None, self._read_load)
            self._reading.add_done_callback(self._take)
        self._loop.call_later(LOAD_EVERY_S, self._read)

    def _take(self, reading: "asyncio.Future[MachineLoad]") -> None:
        self._reading = None
        if not reading.cancelled() and reading.exception() is None:
            self.load = reading.result()
