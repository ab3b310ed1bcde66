"""Read a prompt into memory, chunk by chunk, with an event after each."""

import threading
import time
from collections.abc import Iterator

from engine.model.decoder import Model
from engine.turn.clock import wait_for
from engine.turn.memory import Memory
from engine.types import PromptProgressed


def read_prompt(
    model: Model, memory: Memory, ids: tuple[int, ...], stop: threading.Event
) -> Iterator[PromptProgressed]:
    """Read the part of ``ids`` that memory does not hold yet.

    Chunks are cut at multiples of ``model.chunk_tokens`` from where memory ends. Once ``stop`` is
    set no further chunk begins; memory then holds what was read.

    Args:
        model: reads.
        memory: already aligned with ``ids``.
        ids: the whole prompt.
        stop: ends the reading.

    Yields:
        Progress after each chunk; once, when there is nothing to read.
    """
    num_reused = len(memory.ids)
    began_s = time.perf_counter()
    while not stop.is_set():
        start = len(memory.ids)
        chunk = ids[start : start + model.chunk_tokens]
        if chunk:
            hidden = model.prefill(chunk, memory.state)
            memory.read(chunk, hidden, "prefill", model.chunk_tokens)
            wait_for(model.device)  # or the rate would be that of asking
        num_held = len(memory.ids)
        elapsed_s = max(time.perf_counter() - began_s, 1e-9)
        rate = (num_held - num_reused) / elapsed_s
        yield PromptProgressed(num_held, len(ids), num_reused, rate)
        if num_held == len(ids):
            return
