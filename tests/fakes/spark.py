"""A DGX Spark as torch and NVML describe it: one memory, which neither tells the size of."""

import sys
from types import SimpleNamespace

import torch

FREE_OF_CUDA = 1 << 30
"""What CUDA calls free where the page cache holds the rest: it can be given back."""


class NotSupportedError(Exception):
    """NVML's answer to what a GB10 does not tell."""


def refuses(*_):
    raise NotSupportedError("Not Supported")


def be_a_spark(monkeypatch, *, capability=(12, 1), name="NVIDIA GB10", integrated=1):
    """Let torch and NVML answer as on a DGX Spark; nothing can be launched."""
    properties = SimpleNamespace(
        is_integrated=integrated, multi_processor_count=48, shared_memory_per_block_optin=101_376,
        L2_cache_size=24 << 20, uuid="3a1b",
    )  # fmt: skip
    answers = {
        "is_available": True,
        "get_device_capability": capability,
        "get_device_properties": properties,
        "get_device_name": name,
        "mem_get_info": (FREE_OF_CUDA, 119 << 30),
        "synchronize": None,
    }
    for asked, answer in answers.items():
        monkeypatch.setattr(torch.cuda, asked, lambda *_, answer=answer: answer)
    told = {
        "nvmlInit": lambda: None,
        "nvmlShutdown": lambda: None,
        "nvmlDeviceGetHandleByIndex": lambda _: "handle",
        "nvmlDeviceGetHandleByUUID": lambda _: "handle",
        "nvmlDeviceGetName": lambda _: name,
        "nvmlSystemGetDriverVersion": lambda: "580.95.05",
        "nvmlDeviceGetMemoryInfo": refuses,
        "nvmlDeviceGetUtilizationRates": lambda _: SimpleNamespace(gpu=96, memory=0),
        "nvmlDeviceGetPowerUsage": refuses,
        "nvmlDeviceGetTemperature": lambda *_: 61,
        "nvmlDeviceGetClockInfo": lambda _, clock: 2405 if clock == "sm" else refuses(),
        "nvmlDeviceGetMaxClockInfo": lambda *_: 3003,
    }
    constants = {"NVML_CLOCK_SM": "sm", "NVML_CLOCK_MEM": "mem", "NVML_TEMPERATURE_GPU": 0}
    fake = SimpleNamespace(NVMLError=NotSupportedError, **told, **constants)
    monkeypatch.setitem(sys.modules, "pynvml", fake)
