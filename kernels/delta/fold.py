"""Offer the fold: bring the states of all layers up to the last accepted row."""

import torch

from kernels.common.expect import Axes
from kernels.delta.record import DeltaRecord
from kernels.delta.walk import expect_pending, expect_record, expect_tile, expect_whole
from kernels.delta.walk_launch import launch_fold
from kernels.delta.walk_reference import delta_fold_reference


def delta_fold(
    state: torch.Tensor,
    record: DeltaRecord,
    parity: torch.Tensor,
    num_pending: torch.Tensor,
    pending_rows: torch.Tensor,
) -> None:
    """Add the pending rows to the states of all layers, with the bits of a walk's own fold.

    For whoever needs a state that holds all accepted rows: a prefill, a snapshot, a turn's end.
    The caller then sets `num_pending` to zero.

    Args:
        state: fp32 [L, H, D, E], contiguous, L layers; written in place, untouched where nothing
            is pending.
        record: of all L layers; the pending rows of half 1 - `parity` are read.
        parity: int32 [1], as the next walk would have it, 0 or 1.
        num_pending: int32 [1], pending rows, 0 to 32.
        pending_rows: int32 [32], which rows, in order.

    Raises:
        TypeError: a dtype is not one of those above.
        ValueError: shapes, strides or devices disagree, or the kernel has no tile for heads of D
            keys and E values.

    Numerics:
        fp32, S <- decay S + k u' row by row with one fused multiply-add.

    Side effects:
        One launch on the current stream; safe in capture after a first call has compiled and
        loaded the kernel.
    """
    name = "delta_fold"
    axes = Axes(name)
    axes.tensor("state", state, ("L", "H", "D", "E"), (torch.float32,), "pass those of all layers")
    axes.tensor("record.k", record.k, ("L", "2", "32", "G", "D"), (torch.float32,), "see record.py")
    expect_record(axes, name, record, ("L",))
    expect_pending(axes, parity, num_pending, pending_rows)
    tensors = {
        "state": state, "record.k": record.k, "record.u": record.u, "record.decay": record.decay,
        "parity": parity, "num_pending": num_pending, "pending_rows": pending_rows,
    }  # fmt: skip
    expect_whole(axes, name, tensors)
    if not state.is_cuda:
        for layer in range(state.shape[0]):
            own = DeltaRecord(record.raw, record.k[layer], record.u[layer], record.decay[layer])
            delta_fold_reference(state[layer], own, parity, num_pending, pending_rows)
        return
    expect_tile(name, axes)
    launch_fold(state, record, (parity, num_pending, pending_rows))
