"""Kernels are counted; copies, fills and what the host did are not."""

from types import SimpleNamespace

import torch

from engine import launches


def event(name, device="CUDA"):
    return SimpleNamespace(name=name, device_type=SimpleNamespace(name=device))


SEEN = (
    event("skinny"),
    event("Memcpy DtoH (Device -> Pinned)"),
    event("delta_walk"),
    event("Memset (Device)"),
    event("cudaGraphLaunch", "CPU"),
)


def test_only_kernels_count():
    assert launches.num_kernels(SEEN) == 2
    assert launches.num_kernels(()) == 0


def test_a_cpu_has_none_and_runs_nothing():
    ran = []
    assert launches.count_kernels(lambda: ran.append(1), "cpu") is None
    assert not ran


def test_what_runs_on_a_gpu_runs_once_under_the_profiler(monkeypatch):
    class Profile:
        def __init__(self, activities):
            assert activities == [torch.profiler.ProfilerActivity.CUDA]

        def __enter__(self):
            return self

        def __exit__(self, *_):
            assert ran == [1, "waited"]

        def events(self):
            return self.seen

    ran = []
    monkeypatch.setattr(torch.profiler, "profile", Profile)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: ran.append("waited"))
    Profile.seen = SEEN
    assert launches.count_kernels(lambda: ran.append(1), "cuda") == 2
    ran.clear()
    Profile.seen = ()  # the driver lets nobody look
    assert launches.count_kernels(lambda: ran.append(1), "cuda") is None
