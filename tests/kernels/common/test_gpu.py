"""Choices are those of the GPU that is here until another one is rehearsed, then never both."""

from types import SimpleNamespace

import pytest
import torch

from kernels.common import cuda_kernel, gpu
from kernels.common.cuda_kernel import CudaKernel
from tests.kernels.common.test_cuda_kernel import driver_of


@pytest.fixture
def hopper(monkeypatch):
    """An H200 as torch describes it, in a process that has launched nothing."""
    properties = SimpleNamespace(multi_processor_count=132, shared_memory_per_block_optin=232_448)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda *_: properties)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda *_: (9, 0))
    monkeypatch.setattr(gpu, "_choices", gpu._Choices())


def test_a_gpu_makes_its_own_choices(hopper):
    assert gpu.rehearsed() is None
    assert (gpu.chip(), gpu.choices(0)) == ((9, 0), (9, 0))
    assert (gpu.num_sms(), gpu.shared_bytes(0)) == (132, 232_448)


def test_a_rehearsal_makes_anothers_and_stays_the_chip_it_is(hopper):
    gpu.rehearse(gpu.GB10)
    assert (gpu.chip(0), gpu.choices()) == ((9, 0), (12, 1))
    assert (gpu.num_sms(0), gpu.shared_bytes()) == (48, 101_376)
    gpu.rehearse(gpu.GB10)  # every engine of the process asks for it


def test_choices_of_two_gpus_are_not_mixed_in_a_process(hopper):
    gpu.choices()
    with pytest.raises(ValueError, match="chosen before sm_121 was rehearsed"):
        gpu.rehearse(gpu.GB10)
    assert gpu.choices() == (9, 0)


@pytest.mark.parametrize(("num_bytes", "fits"), [(101_376 - 1024, True), (101_376, False)])
def test_a_launch_that_the_rehearsed_gpu_refused_is_refused(hopper, monkeypatch, num_bytes, fits):
    monkeypatch.setattr(cuda_kernel, "import_module", lambda name: driver_of(1024, []))
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: None)
    kernel = CudaKernel(b"", "f")
    kernel.allow_shared(200_000)  # its own limit is the driver's affair
    gpu.rehearse(gpu.GB10)
    if fits:
        kernel.allow_shared(num_bytes)
        return
    with pytest.raises(RuntimeError, match="sm_121 has 101376 bytes .* wants 102400"):
        kernel.allow_shared(num_bytes)
