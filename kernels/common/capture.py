"""Capture calls into one CUDA graph under the process-wide lock.

PyTorch allows one capture at a time in a process: a second one, or an allocation of another
thread, spoils the first. Whoever captures takes this lock, here or in the engine.
"""

import threading
from collections.abc import Callable, Sequence

import torch

CAPTURE_LOCK = threading.Lock()
"""Held for the length of every capture in this process."""


def capture(calls: Sequence[Callable[[], object]]) -> torch.cuda.CUDAGraph:
    """Run each call once to compile and load it, then capture all of them, in order.

    Args:
        calls: functions that launch on the current stream and allocate nothing they must keep.

    Returns:
        A graph whose replay runs the calls once. The caller keeps their tensors alive.
    """
    with CAPTURE_LOCK:
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
