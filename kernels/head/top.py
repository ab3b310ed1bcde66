"""Offer the k best ids of each row."""

import torch

from kernels.common import interpreter
from kernels.common.expect import Axes
from kernels.common.logit_rows import (
    CHUNK,
    GROUP,
    MAX_TOP,
    lanes_of,
    num_chunks,
    num_groups,
)
from kernels.head.launch import CHUNK_OPTIONS, TOP_OPTIONS
from kernels.head.op import expect_ids
from kernels.head.reference import topk_reference
from kernels.head.scratch import HeadScratch


def topk_rows(
    logits: torch.Tensor,
    num_ids: int,
    *,
    values: torch.Tensor,
    ids: torch.Tensor,
    scratch: HeadScratch,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Take the k largest logits of each row, descending, the lowest id first among equals.

    Args:
        logits: fp32 [T, V], rows contiguous, any row stride; V at most 2^20.
        num_ids: ids from here on are not among them.
        values: fp32 [T, k] to write into, contiguous; k is 1 to 32.
        ids: int32 [T, k] to write into, contiguous.
        scratch: for at least T rows of V logits; held until the call has run.

    Returns:
        `values`, a zero as +0, and `ids`. A row with fewer than k logits above -inf ends in -inf
        and -1; a row that holds a NaN, or whose largest logit is infinite, is NaN and -1 alone.

    Raises:
        TypeError: a dtype is not one of those above.
        ValueError: shapes, strides or devices disagree, k is not 1 to 32, or the scratch is too
            small.

    Numerics:
        Comparisons alone. A row's result depends on the row alone.

    Side effects:
        Two launches on the current stream; safe in graph capture.
    """
    axes = Axes("topk_rows")
    axes.tensor("logits", logits, ("T", "V"), (torch.float32,), "ask the head for fp32 logits")
    axes.tensor("values", values, ("T", "k"), (torch.float32,), "allocate k fp32 a row")
    axes.tensor("ids", ids, ("T", "k"), (torch.int32,), "allocate k int32 a row")
    axes.same_device(logits=logits, values=values, ids=ids, scratch=scratch.keys)
    expect_ids("topk_rows", num_ids)
    k = axes["k"]
    if not 1 <= k <= MAX_TOP:
        raise ValueError(f"topk_rows: values hold {k} logits a row; take 1 to {MAX_TOP}")
    for name, tensor in (("values", values), ("ids", ids)):
        if not tensor.is_contiguous():
            raise ValueError(f"topk_rows: {name} must be contiguous; allocate it anew")
    scratch.expect("topk_rows", axes["T"], axes["V"])
    if not interpreter.on_kernels(logits):
        best = topk_reference(logits, num_ids, k)
        return values.copy_(best[0]), ids.copy_(best[1])
    if axes["T"]:
        _launch(logits, num_ids, values, ids, scratch)
    return values, ids


def _launch(
    logits: torch.Tensor,
    num_ids: int,
    values: torch.Tensor,
    ids: torch.Tensor,
    scratch: HeadScratch,
) -> None:
    from kernels.head.kernel import best_of_group_kernel, top_of_row_kernel

    num_rows, num_logits = logits.shape
    groups = num_groups(num_logits)
    best_of_group_kernel[(num_chunks(num_logits), num_rows)](
        logits, scratch.keys, logits.stride(0), num_logits, num_ids, groups,
        CHUNK=CHUNK, GROUP=GROUP, **CHUNK_OPTIONS,
    )  # fmt: skip
    top_of_row_kernel[(num_rows,)](
        logits, scratch.keys, values, ids, logits.stride(0), num_logits, num_ids, groups,
        values.shape[1], GROUP=GROUP, LANES=lanes_of(groups), TOP=MAX_TOP, **TOP_OPTIONS,
    )  # fmt: skip
