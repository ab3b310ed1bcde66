"""How busy the machine is: memory, CPU and what the GPU tells; nothing here needs torch.

Memory bandwidth is not among it: no counter of a GB10 tells that, so it is computed from bytes.
"""

# pynvml has no types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false

import contextlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class MachineLoad:
    """One reading; 0 or None for what the machine does not tell.

    Attributes:
        process_bytes: resident memory of this process.
        ram_used_bytes: RAM that no program could have now.
        ram_bytes: all RAM.
        cpu_cores: cores that this process kept busy since the reading before.
        gpu_share: share of the time in which the GPU ran something, 0 to 1.
        gpu_used_bytes: of the GPU's own memory; a GB10 has none.
        gpu_bytes: all of it.
        power_w: of the GPU.
        temperature_c: of the GPU.
    """

    process_bytes: int = 0
    ram_used_bytes: int = 0
    ram_bytes: int = 0
    cpu_cores: float = 0.0
    gpu_share: float | None = None
    gpu_used_bytes: int = 0
    gpu_bytes: int = 0
    power_w: float | None = None
    temperature_c: int | None = None


class LoadReader:
    """Reads the load again and again; NVML is opened once. One thread at a time."""

    def __init__(self) -> None:
        self._nvml: Any = None
        self._handle: Any = None
        self._has_looked = False
        self._before = (time.perf_counter(), time.process_time())

    def read(self) -> MachineLoad:
        """Read the load; takes a few milliseconds with a GPU."""
        total, available = _ram()
        now = (time.perf_counter(), time.process_time())
        (wall_s, cpu_s), self._before = self._before, now
        load = MachineLoad(
            process_bytes=_resident_bytes(),
            ram_used_bytes=total - available,
            ram_bytes=total,
            cpu_cores=(now[1] - cpu_s) / max(now[0] - wall_s, 1e-3),
        )
        self._find_gpu()
        return load if self._handle is None else self._with_gpu(load)

    def _find_gpu(self) -> None:
        if self._has_looked:
            return
        self._has_looked = True
        try:
            import pynvml
        except ImportError:
            return
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlInit()
            self._nvml, self._handle = pynvml, pynvml.nvmlDeviceGetHandleByIndex(0)

    def _with_gpu(self, load: MachineLoad) -> MachineLoad:
        nvml, handle = self._nvml, self._handle
        share = self._ask(lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100)
        power = self._ask(lambda: nvml.nvmlDeviceGetPowerUsage(handle) / 1e3)
        sensor = nvml.NVML_TEMPERATURE_GPU
        degrees = self._ask(lambda: int(nvml.nvmlDeviceGetTemperature(handle, sensor)))
        memory = self._ask(lambda: nvml.nvmlDeviceGetMemoryInfo(handle))
        return replace(
            load,
            gpu_share=share,
            power_w=power,
            temperature_c=degrees,
            gpu_used_bytes=int(memory.used) if memory is not None else 0,
            gpu_bytes=int(memory.total) if memory is not None else 0,
        )

    def _ask(self, question: Callable[[], Any]) -> Any:  # noqa: ANN401  a module without types
        """The answer, or None where this GPU has none: a GB10 tells no memory of its own."""
        try:
            return question()
        except self._nvml.NVMLError:
            return None


def _ram() -> tuple[int, int]:
    """All RAM and what of it is free for programs, in bytes; zeros where nobody says."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        values = {name: int(rest.split()[0]) for name, _, rest in (x.partition(":") for x in lines)}
        return values["MemTotal"] << 10, values["MemAvailable"] << 10
    except (OSError, ValueError, KeyError, IndexError):
        return 0, 0


def _resident_bytes() -> int:
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
