"""Read a prompt into memory, piece by piece, with an event after each."""

import threading
import time
from collections.abc import Iterator, Sequence

from engine.model.decoder import Model
from engine.records import RangeRecord
from engine.turn.clock import wait_for
from engine.turn.memory import Memory
from engine.types import PromptProgressed
from kernels.common.round import MAX_ROWS


def read_prompt(
    model: Model,
    memory: Memory,
    ids: tuple[int, ...],
    stop: threading.Event,
    recorded: Sequence[RangeRecord] = (),
) -> Iterator[PromptProgressed]:
    """Read the part of ``ids`` that memory does not hold yet.

    What was computed once is computed in the same way again, so that it has the same bits. All else
    is prefill in chunks, cut at multiples of ``model.chunk_tokens`` from where memory or the record
    ends. Once ``stop`` is set no further piece begins; memory then holds what was read.

    Args:
        model: reads.
        memory: already aligned with ``ids``; ends where a piece of the record does.
        ids: the whole prompt.
        stop: ends the reading.
        recorded: how the first positions were computed, without gaps.

    Yields:
        Progress after each piece; once, when there is nothing to read.
    """
    num_reused = len(memory.ids)
    began_s = time.perf_counter()
    while not stop.is_set():
        start = len(memory.ids)
        if start < len(ids):
            piece = _piece_at(start, len(ids), model.chunk_tokens, recorded)
            if piece.end == len(ids):
                # the template may write the opening of the answer, with which the prompt ends, in
                # another way once there is an answer: this is the last cut before it
                memory.mark()
            _read(model, memory, ids[start : piece.end], piece)
            wait_for(model.device)  # or the rate would be that of asking
            if any(one.end == piece.end for one in recorded):
                memory.mark()
        num_held = len(memory.ids)
        elapsed_s = max(time.perf_counter() - began_s, 1e-9)
        rate = (num_held - num_reused) / elapsed_s
        yield PromptProgressed(num_held, len(ids), num_reused, rate)
        if num_held == len(ids):
            return


def agrees(recorded: Sequence[RangeRecord], held: Sequence[RangeRecord]) -> bool:
    """Whether what is held was computed as recorded, and ends where a piece of the record does."""
    if len(held) > len(recorded):
        return False
    pairs = list(zip(recorded, held, strict=False))
    if any(one != other for one, other in pairs[:-1]):
        return False
    return all(
        (one.start, one.how, one.chunk_tokens) == (other.start, other.how, other.chunk_tokens)
        and (
            one.end == other.end
            or (other.end < one.end and (other.end - other.start) % max(one.chunk_tokens, 1) == 0)
        )
        for one, other in pairs[-1:]
    )


def _piece_at(
    start: int, end: int, chunk_tokens: int, recorded: Sequence[RangeRecord]
) -> RangeRecord:
    """What is read next: a chunk of prefill, or rows that are decoded together."""
    for one in recorded:
        if one.start <= start < one.end:
            size = one.chunk_tokens if one.how == "prefill" else MAX_ROWS
            return RangeRecord(start, min(one.end, start + size), one.how, one.chunk_tokens)
    return RangeRecord(start, min(end, start + chunk_tokens), "prefill", chunk_tokens)


def _read(model: Model, memory: Memory, ids: Sequence[int], piece: RangeRecord) -> None:
    if piece.how == "decode":
        memory.read(ids, model.decode(ids, memory.state), "decode")
        return
    hidden = model.prefill(ids, memory.state, chunk_tokens=piece.chunk_tokens)
    memory.read(ids, hidden, "prefill", piece.chunk_tokens)
