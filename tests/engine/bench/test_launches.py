"""Kernels are counted and so is the time between them; copies and the host's work are not."""

from types import SimpleNamespace

import pytest
import torch

from engine.bench import launches


def event(name, start, end, device="CUDA"):
    times = SimpleNamespace(start=start, end=end)
    return SimpleNamespace(name=name, device_type=SimpleNamespace(name=device), time_range=times)


SEEN = (
    event("skinny", 1000, 1400),
    event("Memcpy DtoH (Device -> Pinned)", 0, 100),
    event("delta_walk", 1500, 2000),
    event("Memset (Device)", 3000, 9000),
    event("cudaGraphLaunch", 0, 50, "CPU"),
)


def test_only_kernels_count():
    seen = launches.kernels_among(SEEN)
    assert (seen.number, seen.span_ms, seen.gaps_ms) == (2, 1.0, 0.1)
    assert seen.gap_share == pytest.approx(0.1)
    assert launches.kernels_among(()) is None


def test_kernels_that_overlap_leave_no_gap():
    seen = launches.kernels_among(
        (event("b", 900, 1100), event("a", 0, 1000), event("c", 1100, 1200))
    )
    assert (seen.number, seen.span_ms, seen.gaps_ms) == (3, 1.2, 0.0)


def test_what_kernels_add_is_told_by_place_and_sums_to_the_span():
    seen = launches.kernels_among(
        (
            event("void ns::product<int, 4>(Problem)", 0, 1000),
            event("norm", 900, 1200),  # overlaps: it adds 200 of its 300
            event("void ns::product<int, 4>(Problem)", 1150, 2200),
            event("norm", 2300, 2500),
            event("void ns::product<int, 4>(Problem)", 2500, 3400),
        )
    )
    first, behind_a_norm, norm = (
        next(one for one in seen.places if (one.name, one.after) == place)
        for place in (("product", ""), ("product", "norm"), ("norm", "product"))
    )
    assert (first.launches, first.each_us) == (1, 1000)
    assert (behind_a_norm.launches, behind_a_norm.each_us, behind_a_norm.adds_ms) == (2, 950, 1.9)
    assert (norm.launches, norm.each_us, norm.adds_ms) == (2, 250, 0.5)
    assert seen.places[0] is behind_a_norm  # what adds most first
    assert sum(one.adds_ms for one in seen.places) == pytest.approx(seen.span_ms)


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("walk", "walk"),
        ("void at::native::reduce_kernel<512, 1, at::Op<float>>(at::Op<float>)", "reduce_kernel"),
        (
            "void at::native::(anonymous namespace)::CatArrayBatchedCopy<int>(char*)",
            "CatArrayBatchedCopy",
        ),
        ("_conv_kernel", "_conv_kernel"),
        ("(anonymous namespace)::fill", "(anonymous namespace)::fill"),
    ],
)
def test_names_lose_what_a_compiler_adds(name, short):
    assert launches.short_name(name) == short


def test_a_cpu_has_none_and_runs_nothing():
    ran = []
    assert launches.watch_kernels(lambda: ran.append(1), "cpu") is None
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
    assert launches.watch_kernels(lambda: ran.append(1), "cuda").number == 2
    ran.clear()
    Profile.seen = ()  # the driver lets nobody look
    assert launches.watch_kernels(lambda: ran.append(1), "cuda") is None
