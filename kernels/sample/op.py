"""Offer the choice of one token a row: check arguments, launch what the method needs.

CUDA tensors go to the Triton kernels, CPU tensors to the torch references, or to the kernels in a
process that interprets them.
"""

from typing import Any

import torch

from kernels.common import interpreter
from kernels.common.expect import Axes
from kernels.common.logit_rows import (
    CHUNK,
    GROUP,
    MAX_IDS,
    MAX_TOP,
    lanes_of,
    num_chunks,
    num_groups,
)
from kernels.common.round import MAX_ROWS
from kernels.sample.launch import OPTIONS, SEARCH_STEPS, TOP_OPTIONS
from kernels.sample.params import Method, SampleParams
from kernels.sample.rows import SampleScratch, TreeRows
from kernels.sample.rows_reference import sample_rows_reference


def sample_rows(
    logits: torch.Tensor,
    params: SampleParams,
    rows: TreeRows,
    *,
    method: Method,
    ids: torch.Tensor,
    scratch: SampleScratch,
) -> torch.Tensor:
    """Choose one token a row: penalties, temperature, top-k, top-p, min-p, then one draw.

    Args:
        logits: fp32 [T, V], T at most 32, rows contiguous, any row stride.
        params: the sampling, in device memory; what it holds when the kernels run counts.
        rows: where the rows stand. The chosen token of row i stands at start + depths[i] + 1; the
            drafts on the way to row i count as seen and generated for it.
        method: what `params.write` returned for a sampling of this method.
        ids: int32 [T] to write into.
        scratch: for V logits; held until the call has run.

    Returns:
        `ids`: what `sample_reference` chooses for each row; -1 for a row that it refuses, with a
        NaN or no finite largest logit.

    Raises:
        TypeError: a dtype is not one of those above.
        ValueError: shapes, strides or devices disagree, or a number is out of its range.

    Numerics:
        Penalties in fp32, correctly rounded. Greedy: comparisons alone. A draw's probabilities and
        scores are fp64; they differ from the reference's by the last bits of the device's
        exponential and logarithm and of a sum's order, and for a top_p without a top_k of at most
        32 by the grain of its masses, 2^-43 of the most likely id's (search_kernel.py). So
        another choice than the reference's takes two scores, or a mass and top_p, as close as that.
        A row's choice is a function of its logits, its marks and drafts, its position and the
        sampling: the same bits for any T.

    Side effects:
        2 launches for greedy and top_k of at most 32; else 3, and 15 for each search; all on the
        current stream, safe in graph capture.
    """
    axes = Axes("sample_rows")
    axes.tensor("logits", logits, ("T", "V"), (torch.float32,), "ask the head for fp32 logits")
    axes.tensor("ids", ids, ("T",), (torch.int32,), "allocate one int32 a row")
    rows.expect(axes)
    axes.same_device(logits=logits, ids=ids, params=params.ints, start=rows.start,
                     depths=rows.depths, paths=rows.paths, row_ids=rows.row_ids, seen=rows.seen,
                     generated=rows.generated, scratch=scratch.maxima)  # fmt: skip
    if axes["T"] > MAX_ROWS:
        raise ValueError(
            f"sample_rows: got T = {axes['T']} rows, expected at most {MAX_ROWS}; call it in slices"
        )
    if axes["V"] > min(scratch.max_logits, MAX_IDS):
        raise ValueError(
            f"sample_rows: rows of {axes['V']} logits do not fit a scratch for "
            f"{scratch.max_logits}; make one for up to {MAX_IDS}"
        )
    if not interpreter.on_kernels(logits):
        return ids.copy_(sample_rows_reference(logits, params, rows))
    if axes["T"]:
        _launch(_Call(logits, params, rows, method, ids, scratch))
    return ids


class _Call:
    """Arguments of a call as its kernels take them."""

    def __init__(
        self,
        logits: torch.Tensor,
        params: SampleParams,
        rows: TreeRows,
        method: Method,
        ids: torch.Tensor,
        scratch: SampleScratch,
    ) -> None:
        self.num_rows, self.num_logits = logits.shape
        self.chunks, self.groups = num_chunks(self.num_logits), num_groups(self.num_logits)
        self.read = (
            logits, params.floats, params.ints, rows.row_ids, rows.depths, rows.paths, rows.seen,
            rows.generated, scratch.maxima,
        )  # fmt: skip
        self.strides = (logits.stride(0), self.num_logits)
        self.params, self.start, self.ids, self.scratch = params, rows.start, ids, scratch
        self.method = method
        self.penalised: dict[str, Any] = {"PENALISED": method.penalised}


def _launch(call: _Call) -> None:
    if call.method.choice == "top":
        _launch_top(call)
        return
    from kernels.sample.top_kernel import best_kernel

    _launch_maxima(call, call.chunks, CHUNK)
    if call.method.choice == "greedy":
        best_kernel[(call.num_rows,)](
            call.scratch.maxima, call.ids, call.chunks, LANES=lanes_of(call.chunks), **OPTIONS
        )
        return
    if call.method.counts:
        _search(call, counts=True, has_floor=False)
    if call.method.weighs:
        _search(call, counts=False, has_floor=call.method.counts)
    _launch_draw(call)


def _launch_maxima(call: _Call, num_maxima: int, group: int) -> None:
    from kernels.sample.logits_kernel import maxima_kernel

    maxima_kernel[(call.chunks, call.num_rows)](
        *call.read, *call.strides, num_maxima, **call.penalised, CHUNK=CHUNK, GROUP=group, **OPTIONS
    )


def _launch_top(call: _Call) -> None:
    from kernels.sample.top_kernel import draw_top_kernel

    _launch_maxima(call, call.groups, GROUP)
    draw_top_kernel[(call.num_rows,)](
        *call.read, call.start, call.ids, *call.strides, call.groups, **call.penalised,
        GROUP=GROUP, LANES=lanes_of(call.groups), TOP=MAX_TOP, **TOP_OPTIONS,
    )  # fmt: skip


def _search(call: _Call, *, counts: bool, has_floor: bool) -> None:
    from kernels.sample.search_kernel import search_kernel, settle_kernel

    scratch, lanes = call.scratch, lanes_of(call.chunks)
    kept = (scratch.brackets, scratch.targets, scratch.sums, scratch.floors)
    for step in range(SEARCH_STEPS):
        search_kernel[(call.chunks, call.num_rows)](
            *call.read, *kept, *call.strides, call.chunks, step, COUNTS=counts,
            HAS_FLOOR=has_floor, **call.penalised, CHUNK=CHUNK, LANES=lanes, **OPTIONS,
        )  # fmt: skip
    settle_kernel[(call.num_rows,)](
        scratch.maxima, call.params.floats, call.params.ints, *kept, call.chunks, SEARCH_STEPS,
        COUNTS=counts, HAS_FLOOR=has_floor, LANES=lanes, **OPTIONS,
    )  # fmt: skip


def _launch_draw(call: _Call) -> None:
    from kernels.sample.draw_kernel import draw_chunk_kernel, draw_row_kernel

    scratch, lanes = call.scratch, lanes_of(call.chunks)
    has_floor = call.method.counts or call.method.weighs
    draw_chunk_kernel[(call.chunks, call.num_rows)](
        *call.read, call.start, scratch.floors, scratch.scores, scratch.winners, *call.strides,
        call.chunks, HAS_FLOOR=has_floor, **call.penalised, CHUNK=CHUNK, LANES=lanes, **OPTIONS,
    )  # fmt: skip
    draw_row_kernel[(call.num_rows,)](
        scratch.maxima, scratch.scores, scratch.winners, call.ids, call.chunks, LANES=lanes,
        **OPTIONS,
    )  # fmt: skip
