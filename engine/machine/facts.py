"""What must stand beside a figure so that it can be compared: GPU, driver, versions, clocks."""

# pynvml has no types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false

import importlib.metadata
import platform
import sys
from datetime import UTC, datetime
from typing import Any

import torch

from engine.machine.gpu import read_gpu
from kernels.common import gpu


def machine_facts(device: str) -> dict[str, Any]:
    """Name the device and the software; JSON values, None for what does not apply."""
    facts: dict[str, Any] = {
        "device": device,
        "gpu": None,
        "capability": None,
        "launches": None,
        "driver": None,
        "cuda": None,
        "cpu": platform.machine(),
        "threads": torch.get_num_threads(),
        "cache_bytes": cache_bytes(device),
        "torch": torch.__version__,
        "triton": version_of("triton"),
        "python": sys.version.split()[0],
    }
    if device == "cuda":
        major, minor = gpu.chip()
        told, other = read_gpu(), gpu.rehearsed()
        facts |= {
            "gpu": torch.cuda.get_device_name(),
            "capability": f"{major}.{minor}",
            "launches": other.name if other else None,
            "driver": told.driver if told else None,
            "cuda": torch.version.cuda,
        }
    return facts


def cache_bytes(device: str) -> int:
    """Return the size of the last-level cache: the GPU's L2, or 32 MiB for a CPU."""
    if device == "cuda":
        return int(torch.cuda.get_device_properties().L2_cache_size)
    return 32 << 20


def now() -> str:
    """The date and time of a figure, with the offset of UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def version_of(package: str) -> str | None:
    """The installed version of a distribution; None when it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def read_clocks() -> dict[str, int]:
    """Clocks of torch's GPU in MHz and its temperature; what the driver does not tell is absent.

    Read it right after a load: an idle GPU clocks down.
    """
    try:
        import pynvml
    except ImportError:
        return {}
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return {}
    try:
        handle = _handle(pynvml)
        questions = {
            "sm_mhz": lambda: pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM),
            "memory_mhz": lambda: pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_MEM),
            "max_sm_mhz": lambda: pynvml.nvmlDeviceGetMaxClockInfo(handle, pynvml.NVML_CLOCK_SM),
            "temperature_c": lambda: pynvml.nvmlDeviceGetTemperature(
                handle, pynvml.NVML_TEMPERATURE_GPU
            ),
        }
        found: dict[str, int] = {}
        for name, ask in questions.items():
            try:
                found[name] = int(ask())
            except pynvml.NVMLError:  # a GB10 does not tell its memory clock
                continue
        return found
    except pynvml.NVMLError:
        return {}
    finally:
        pynvml.nvmlShutdown()


def _handle(pynvml: Any) -> Any:  # noqa: ANN401  a module without types
    """NVML's handle of torch's current GPU; the first one where it cannot be told."""
    try:
        uuid = f"GPU-{torch.cuda.get_device_properties().uuid}"
        return pynvml.nvmlDeviceGetHandleByUUID(uuid)
    except (AttributeError, AssertionError, RuntimeError, pynvml.NVMLError):
        return pynvml.nvmlDeviceGetHandleByIndex(0)
