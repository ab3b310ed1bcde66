"""Captured launches: one CUDA graph a shape, launched at once instead of kernel by kernel."""

import time
from collections.abc import Callable, Hashable
from typing import Any

import torch

from engine.graph_classes import MAX_LATER_GRAPHS
from kernels.common.capture import undisturbed


class GraphCache:
    """Graphs by what decides their launches; they share one pool of memory for what lies between.

    Nothing of a graph's inner memory may be read after the next one runs: results go to tensors
    made outside. Those that `run` was told to keep stay; of the others `MAX_LATER_GRAPHS` do.

    Args:
        captures: False launches kernel by kernel, always.
        refused: told in a sentence when the GPU refuses a capture; from then on as above.
        captured: told of each capture what it launches, in words, and how many milliseconds it and
            the launches before it took.
    """

    def __init__(
        self,
        *,
        captures: bool,
        refused: Callable[[str], None],
        captured: Callable[[str, float], None],
    ) -> None:
        self._captures = captures
        self._refused = refused
        self._captured = captured
        self._graphs: dict[Hashable, Any] = {}
        self._lasting: set[Hashable] = set()
        self._addresses: tuple[int, ...] = ()
        self._pool = torch.cuda.graph_pool_handle() if captures else None

    def serve(self, addresses: tuple[int, ...]) -> None:
        """Forget the graphs when what they read and write has moved."""
        if addresses != self._addresses:
            self._graphs.clear()
            self._addresses = addresses

    def lacks(self, key: Hashable) -> bool:
        """Whether `run` will launch kernel by kernel and then capture."""
        return self._captures and key not in self._graphs

    def run(
        self, key: Hashable, launch: Callable[[], None], what: str, *, lasts: bool = False
    ) -> None:
        """Run what ``launch`` launches on the current stream, by its graph where there is one.

        The first call of a key launches it, which compiles what is new, and captures it after.

        Args:
            key: decides the launches.
            launch: launches them.
            what: they are, in words.
            lasts: keep its graph, however many others come.
        """
        if lasts:
            self._lasting.add(key)
        if key in self._graphs:
            graph = self._graphs[key] = self._graphs.pop(key)  # the newest stands last
            graph.replay()
            return
        began_s = time.perf_counter()
        launch()
        if self._captures:
            self._try_to_capture(key, launch, what)
        if key in self._graphs:
            self._captured(what, (time.perf_counter() - began_s) * 1e3)

    def _try_to_capture(self, key: Hashable, launch: Callable[[], None], what: str) -> None:
        try:
            self._graphs[key] = self._capture(launch)
        except RuntimeError as problem:
            self._captures = False
            self._graphs.clear()
            reason = (str(problem).splitlines() or ["no reason given"])[0]
            self._refused(
                f"The GPU refused to capture {what} as a graph ({reason}): such launches run "
                "kernel by kernel from here, which is slower and changes no bit."
            )
        later = [one for one in self._graphs if one not in self._lasting]
        for one in later[:-MAX_LATER_GRAPHS]:
            del self._graphs[one]

    def _capture(self, launch: Callable[[], None]) -> Any:  # noqa: ANN401  torch's graph has no type
        graph = torch.cuda.CUDAGraph()
        with (
            undisturbed(),
            torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"),
        ):
            launch()
        return graph
