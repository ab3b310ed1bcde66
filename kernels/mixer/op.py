"""Offer a few rows of a recurrent layer, from raw channels to the gated norm, in one launch."""

import torch

from kernels.common.expect import Axes
from kernels.common.tree import TreeTables
from kernels.conv.arguments import (
    BF16,
    FP32,
    INT32,
    GateInputs,
    checked_layer,
    expect_contiguous,
    expect_width,
)
from kernels.conv.op import conv_gates
from kernels.delta.gate import OutputGate, expect_gate
from kernels.delta.record import DeltaRecord
from kernels.delta.walk import delta_walk, expect_pending, expect_record, expect_whole
from kernels.mixer.launch import launch_rows
from kernels.mixer.tile import HEAD_DIM, MOST_ROWS, SHARE, takes


def mixer_rows(
    x: torch.Tensor,
    gates: GateInputs,
    taps: torch.Tensor,
    decay_rate: torch.Tensor,
    dt_bias: torch.Tensor,
    tails: torch.Tensor,
    record: DeltaRecord,
    state: torch.Tensor,
    parity: torch.Tensor,
    num_pending: torch.Tensor,
    pending_rows: torch.Tensor,
    tree: TreeTables,
    *,
    out: torch.Tensor,
    gate: OutputGate | None = None,
    overlap: bool = False,
) -> torch.Tensor:
    """Do what `conv_gates` and then `delta_walk` do, of 1 to 3 rows, with their bits.

    Args:
        x: bf16 [T, C], C = (2 G + H) D as q | k | v, T from 1 to 3, any row stride of whole 8
            bytes.
        gates: what a | b are the product of: rows bf16 [T, K] and weight bf16 [2 H, K] or wider,
            row strides of whole 8 bytes.
        taps: bf16 [C, 4], contiguous, the last for the row itself.
        decay_rate: fp32 [H], -exp(A_log).
        dt_bias: fp32 [H].
        tails: bf16 [2, 3, C]: half 1 - `parity` is read, half `parity` written.
        record: of one layer. Of half 1 - `parity` the pending rows are read; of half `parity` rows
            up to T are written.
        state: fp32 [H, D, E], D and E 128, holding all before the pending rows; written in place,
            untouched where nothing is pending.
        parity: int32 [1], the half that this round writes, 0 or 1.
        num_pending: int32 [1], pending rows, 0 to 32.
        pending_rows: int32 [32], which rows of the other half, in order.
        tree: of T rows.
        out: bf16 [T, H, E] to write into, contiguous.
        gate: norm and gate what is written, and write operands of it, as `delta_walk` does.
        overlap: start before the previous kernel of the stream has ended, and let the next one
            start early (programmatic dependent launch). Changes no bit. All but x, z and what is
            written is read before that kernel ends. The rows of `gates` must be older than it, and
            it must have waited before it let this one start, as products do; whatever writes the
            rest must have ended before the graph, or the last kernel without overlap, began.

    Returns:
        `out`.

    Raises:
        TypeError: a dtype is not one of those above.
        ValueError: shapes, strides or devices disagree, something does not begin where a GPU's
            loads may, or `takes` says no to the layer.

    Numerics:
        Those of `conv_gates` and `delta_walk`, bit for bit; on a CPU it calls them.

    Side effects:
        One launch on the current stream; safe in capture after a first call has compiled and
        loaded the kernel.
    """
    name = "mixer_rows"
    axes = checked_layer(Axes(name), x, gates, taps, decay_rate, dt_bias)
    axes.tensor("tails", tails, ("2", "3", "C"), BF16, "pass bf16 [2, 3, C]")
    axes.tensor("record.raw", record.raw, ("2", "32", "C"), BF16, "see DeltaRecord")
    axes.tensor("state", state, ("H", "D", "E"), FP32, "pass the state of one layer")
    axes.tensor("out", out, ("T", "H", "E"), BF16, "allocate bf16 [T, H, E]")
    axes.tensor("record.k", record.k, ("2", "32", "G", "D"), FP32, "see DeltaRecord")
    expect_record(axes, name, record, ())
    expect_pending(axes, parity, num_pending, pending_rows)
    tables = {"parents": tree.parents, "saves": tree.saves, "restores": tree.restores}
    for title, table in tables.items():
        axes.tensor(title, table, ("32",), INT32, "pass the tables of T rows")
    if not takes(axes["T"], axes["D"], axes["E"], axes["K"]):
        raise ValueError(
            f"{name}: got {axes['T']} rows, heads of D = {axes['D']} keys and E = {axes['E']} "
            f"values, K = {axes['K']} inputs of a | b; expected 1 to {MOST_ROWS} rows, heads of "
            f"{HEAD_DIM} and a multiple of {SHARE} inputs; call conv_gates and delta_walk"
        )
    if gate is not None:
        expect_gate(axes, name, gate, x)
    expect_width(name, axes)
    expect_contiguous(name, taps=taps, tails=tails, record_raw=record.raw)
    expect_whole(
        axes, name,
        {
            "state": state, "out": out, "record.k": record.k, "record.u": record.u,
            "record.decay": record.decay, "parity": parity, "num_pending": num_pending,
            "pending_rows": pending_rows, **tables,
        },
    )  # fmt: skip
    axes.aligned(16, taps=taps)
    axes.aligned(8, tails=tails, record_raw=record.raw)
    _expect_rows_of_8_bytes(name, {"x": x, "gates.rows": gates.rows, "gates.weight": gates.weight})
    if not x.is_cuda:
        q = x.new_empty((axes["T"], axes["G"], axes["D"]), dtype=torch.float32)
        v, beta = torch.empty_like(out), x.new_empty((axes["T"], axes["H"]), dtype=torch.float32)
        conv_gates(
            x, gates, taps, decay_rate, dt_bias, tails, record.raw, record.k, record.decay, parity,
            num_pending, pending_rows, tree.parents, q=q, v=v, beta=beta,
        )  # fmt: skip
        return delta_walk(
            q, v, beta, state, record, parity, num_pending, pending_rows, tree.saves, tree.restores,
            out=out, gate=gate,
        )  # fmt: skip
    launch_rows(
        x, gates, taps, decay_rate, dt_bias, tails, record, state,
        (parity, num_pending, pending_rows), tree, out, gate, overlap=overlap,
    )  # fmt: skip
    return out


def _expect_rows_of_8_bytes(name: str, tensors: dict[str, torch.Tensor]) -> None:
    """Check rows that the kernel reads 8 bytes at a time."""
    for title, tensor in tensors.items():
        if tensor.stride(0) % SHARE or (tensor.is_cuda and tensor.data_ptr() % 8):
            raise ValueError(
                f"{name}: {title} must have rows that start at whole 8 bytes, got a row stride of "
                f"{tensor.stride(0)} from {tensor.data_ptr():#x}; pass a part of the fused product "
                "that starts at a head"
            )
