"""What the driver says, and what it does not say on a machine with shared memory."""

import sys
from types import SimpleNamespace

import pytest

from engine.machine.gpu import read_gpu


class FakeError(Exception):
    pass


def nvml(monkeypatch, *, init=None, memory=None):
    def fails(*_):
        raise FakeError

    fake = SimpleNamespace(
        NVMLError=FakeError,
        nvmlInit=fails if init else lambda: None,
        nvmlShutdown=lambda: None,
        nvmlDeviceGetHandleByIndex=lambda _: 0,
        nvmlDeviceGetName=lambda _: "NVIDIA GB10",
        nvmlSystemGetDriverVersion=lambda: "580.173",
        nvmlDeviceGetMemoryInfo=fails
        if memory is None
        else lambda _: SimpleNamespace(total=memory),
    )
    monkeypatch.setitem(sys.modules, "pynvml", fake)


def test_no_driver_is_no_gpu(monkeypatch):
    nvml(monkeypatch, init=True)
    assert read_gpu() is None
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert read_gpu() is None


@pytest.mark.parametrize(
    ("memory", "words"), [(None, "shared with the CPU"), (150 * 10**9, "150.0 GB of its own")]
)
def test_memory_in_words(monkeypatch, memory, words):
    nvml(monkeypatch, memory=memory)
    found = read_gpu()
    assert found.name == "NVIDIA GB10"
    assert words in found.memory_sentence
