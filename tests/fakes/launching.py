"""A GPU that counts launches and computes nothing, for the code that only a GPU reaches.

Tensors stay in the host's memory and say that they are on a GPU, so that every launcher goes its
way to the end: tiles are chosen, structs filled, tensor maps asked for, arguments bound. What a
launch would write stays as it was. The process is no good for anything else afterwards.
"""

from collections import Counter
from types import SimpleNamespace

import torch
from triton.runtime.jit import JITFunction

from kernels.attention import prefill, store_maps
from kernels.common import gpu, nvrtc
from kernels.common.cuda_kernel import CudaKernel, Launch, TensorMap
from kernels.common.shared_memory import MAX_SHARED_BYTES
from kernels.linear import skinny_maps

MOST_THREADS = 1024
NUM_SMS = {90: 132, 121: 48}
OPTIONS = {"num_warps", "num_stages", "enable_fp_fusion", "launch_pdl", "arch"}


class FakeMap(TensorMap):
    """A tensor map that nobody describes."""

    def __init__(self) -> None:
        self.address = 0


def pretend(capability: tuple[int, int]) -> Counter[str]:
    """Be a GPU of this capability until the process ends; returns the launches by kernel."""
    sm = 10 * capability[0] + capability[1]
    room = MAX_SHARED_BYTES[sm]
    launches: Counter[str] = Counter()
    facts = {
        "is_available": True,
        "get_device_capability": capability,
        "get_device_properties": SimpleNamespace(
            multi_processor_count=NUM_SMS[sm], shared_memory_per_block_optin=room,
            L2_cache_size=24 << 20, name="counts launches",
        ),
        "current_device": 0,
        "current_stream": SimpleNamespace(cuda_stream=0),
        "is_current_stream_capturing": False,
        "synchronize": None,
    }  # fmt: skip
    for name, answer in facts.items():
        setattr(torch.cuda, name, lambda *_, answer=answer, **__: answer)
    moved = torch.Tensor.to

    def to(tensor, *arguments, **options):
        to_gpu = arguments and torch.device("cuda", 0) == arguments[0]
        return tensor if to_gpu else moved(tensor, *arguments, **options)

    torch.Tensor.is_cuda = property(lambda _: True)
    torch.Tensor.get_device = lambda _: 0
    torch.Tensor.to = to

    def load(kernel, cubin, name):
        assert isinstance(cubin, bytes)
        kernel.name = name

    def launch(kernel, shape: Launch, *arguments):
        assert 0 < shape.threads <= MOST_THREADS
        assert shape.threads % 32 == 0
        assert shape.blocks > 0
        assert shape.blocks % shape.cluster == 0
        assert 0 <= shape.shared_bytes <= room
        assert all(isinstance(one, TensorMap) or hasattr(one, "_fields_") for one in arguments)
        launches[kernel.name] += 1

    nvrtc.compile_cubin = lambda *_: b""
    CudaKernel.__init__ = load
    CudaKernel.launch = launch
    CudaKernel.allow_shared = lambda _, num_bytes: None
    store_maps._described = lambda *_: FakeMap()
    skinny_maps.byte_map = lambda *_: FakeMap()

    def fused(query, *_):
        launches["attention of the library"] += 1
        return torch.zeros_like(query)

    prefill._fused = fused

    def run(kernel, *arguments, grid, warmup=False, **named):
        del grid, warmup
        names = [one.name for one in kernel.params]
        options = {name for name in named if name not in names}
        bound = {*names[: len(arguments)], *(named.keys() - options)}
        assert options <= OPTIONS, f"{kernel.fn.__name__} takes no {options - OPTIONS}"
        assert len(bound) == len(arguments) + len(named) - len(options)
        lacks = [one.name for one in kernel.params if one.name not in bound and not one.has_default]
        assert not lacks, f"{kernel.fn.__name__} is launched without {lacks}"
        launches[kernel.fn.__name__] += 1

    JITFunction.run = run
    assert gpu.chip() == capability
    return launches
