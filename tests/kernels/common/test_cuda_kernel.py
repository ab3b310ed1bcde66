"""A kernel asks for shared memory only where a launch needs more than it has anyway."""

import threading
import time
from types import SimpleNamespace

import pytest
import torch

from kernels.common import cuda_kernel
from kernels.common.cuda_kernel import CudaKernel, Launch


def test_a_launch_is_one_block_a_cluster_and_does_not_overlap_by_default():
    assert Launch(4, 128, 0) == Launch(4, 128, 0, cluster=1, overlap=False)


def driver_of(static_bytes, allowed):
    """CUDA's driver as far as loading and shared memory go; ``allowed`` keeps what was asked."""
    attributes = SimpleNamespace(
        CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES="static",
        CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES="dynamic",
    )

    def allow(function, attribute, num_bytes):
        allowed.append((function, attribute, num_bytes))
        return (0,)

    return SimpleNamespace(
        CUresult=SimpleNamespace(CUDA_SUCCESS=0),
        CUfunction_attribute=attributes,
        cuModuleLoadData=lambda cubin: (0, "module"),
        cuModuleGetFunction=lambda module, name: (0, "f"),
        cuFuncGetAttribute=lambda attribute, function: (0, {"static": static_bytes}[attribute]),
        cuFuncSetAttribute=allow,
    )


@pytest.mark.parametrize(
    ("static", "dynamic", "asked"),
    [(0, 48 << 10, False), (0, (48 << 10) + 16, True), (1024, 48 << 10, True),
     (1024, 47 << 10, False), (1024, (47 << 10) + 16, True)],
)  # fmt: skip
def test_leave_is_asked_for_more_than_48_kib_of_static_and_dynamic_together(
    monkeypatch, static, dynamic, asked
):
    allowed = []
    driver = driver_of(static, allowed)
    monkeypatch.setattr(cuda_kernel, "import_module", lambda name: driver)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: None)
    kernel = CudaKernel(b"", "f")
    for _ in range(2):
        kernel.allow_shared(dynamic)
    assert allowed == ([("f", "dynamic", dynamic)] if asked else [])


def test_of_two_threads_that_ask_at_one_time_the_higher_limit_stays(monkeypatch):
    allowed, has_asked = [], threading.Event()
    driver = driver_of(0, allowed)
    allow = driver.cuFuncSetAttribute

    def allow_slowly(function, attribute, num_bytes):
        if num_bytes == 60 << 10:
            has_asked.set()
            time.sleep(0.05)  # a thread that does not wait its turn is answered first
        return allow(function, attribute, num_bytes)

    driver.cuFuncSetAttribute = allow_slowly
    monkeypatch.setattr(cuda_kernel, "import_module", lambda name: driver)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: None)
    kernel = CudaKernel(b"", "f")
    low = threading.Thread(target=kernel.allow_shared, args=(60 << 10,))
    low.start()
    assert has_asked.wait(5)
    kernel.allow_shared(100 << 10)
    low.join()
    assert allowed[-1] == ("f", "dynamic", 100 << 10)
