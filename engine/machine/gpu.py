"""Facts of the first NVIDIA GPU, asked of its driver through NVML; nothing here needs torch."""

# pynvml has no types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false

from dataclasses import dataclass

from engine.sizes import size_text


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU; ``memory_bytes`` is 0 where it shares the machine's RAM, as on a GB10."""

    name: str
    driver: str
    memory_bytes: int

    @property
    def memory_sentence(self) -> str:
        """Its memory in words."""
        if self.memory_bytes:
            return f"{size_text(self.memory_bytes)} of its own memory"
        return "memory shared with the CPU"


def read_gpu() -> Gpu | None:
    """The first GPU that the driver knows, or None."""
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    try:
        handle = pynvml.nvmlDeviceGetHandleByIndex(0)
        name = str(pynvml.nvmlDeviceGetName(handle))
        driver = str(pynvml.nvmlSystemGetDriverVersion())
        try:
            memory = int(pynvml.nvmlDeviceGetMemoryInfo(handle).total)
        except pynvml.NVMLError:  # a GB10 has no memory of its own to tell of
            memory = 0
        return Gpu(name, driver, memory)
    except pynvml.NVMLError:
        return None
    finally:
        pynvml.nvmlShutdown()
