"""Captured launches: one CUDA graph a shape, launched at once instead of kernel by kernel."""

from collections.abc import Callable, Hashable
from typing import Any

import torch

from kernels.common.capture import CAPTURE_LOCK

MAX_GRAPHS = 64
"""Graphs kept; the one not used for longest goes first."""


class GraphCache:
    """Graphs by what decides their launches; they share one pool of memory for what lies between.

    Nothing of a graph's inner memory may be read after the next one runs: results go to tensors
    made outside.
    """

    def __init__(self) -> None:
        self._graphs: dict[Hashable, Any] = {}
        self._addresses: tuple[int, ...] = ()
        self._pool = torch.cuda.graph_pool_handle()

    def __len__(self) -> int:
        """Graphs held."""
        return len(self._graphs)

    def __contains__(self, key: Hashable) -> bool:
        """Whether a key has a graph."""
        return key in self._graphs

    def serve(self, addresses: tuple[int, ...]) -> None:
        """Forget the graphs when what they read and write has moved."""
        if addresses != self._addresses:
            self._graphs.clear()
            self._addresses = addresses

    def replay(self, key: Hashable) -> None:
        """Run the graph of a key on the current stream."""
        graph = self._graphs[key] = self._graphs.pop(key)  # the newest stands last
        graph.replay()

    def capture(self, key: Hashable, launch: Callable[[], None]) -> None:
        """Capture what ``launch`` launches, which has run before: captures compile nothing.

        Raises:
            RuntimeError: something that was launched cannot be captured.
        """
        graph = torch.cuda.CUDAGraph()
        with (
            CAPTURE_LOCK,
            torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"),
        ):
            launch()
        self._graphs[key] = graph
        while len(self._graphs) > MAX_GRAPHS:
            del self._graphs[next(iter(self._graphs))]
