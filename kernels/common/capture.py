"""Capture calls into one CUDA graph, nothing else in the process coming between.

PyTorch allows one capture at a time in a process: a second one, or an allocation of another
thread, spoils the first. Whoever captures does so within `undisturbed`, here or in the engine.
"""

import gc
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch

_LOCK = threading.Lock()
"""Held for the length of every capture in this process."""


@contextmanager
def undisturbed() -> Iterator[None]:
    """Hold the process-wide lock, and keep Python's collector of garbage still.

    What the collector frees may be a kernel that two threads have compiled; its module is unloaded,
    which spoils a capture under way.
    """
    with _LOCK:
        collects = gc.isenabled()
        gc.disable()
        try:
            yield
        finally:
            if collects:
                gc.enable()


def capture(calls: Sequence[Callable[[], object]]) -> torch.cuda.CUDAGraph:
    """Run each call once to compile and load it, then capture all of them, in order.

    Args:
        calls: functions that launch on the current stream and allocate nothing they must keep.

    Returns:
        A graph whose replay runs the calls once. The caller keeps their tensors alive.
    """
    with undisturbed():
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for call in calls:
                call()
        torch.cuda.current_stream().wait_stream(stream)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for call in calls:
                call()
    return graph
