"""Offer the delta walk: 1 to 32 rows, a chain or a tree, through the state of one layer."""

import torch

from kernels.common.expect import Axes
from kernels.common.round import MAX_ROWS
from kernels.delta.gate import OutputGate, expect_gate
from kernels.delta.record import DeltaRecord
from kernels.delta.tile import KEY_STRIDE, MAX_KEY_DIM, VALUE_STRIDE, fits
from kernels.delta.walk_launch import launch_walk
from kernels.delta.walk_reference import delta_walk_reference


def delta_walk(
    q: torch.Tensor,
    v: torch.Tensor,
    beta: torch.Tensor,
    state: torch.Tensor,
    record: DeltaRecord,
    parity: torch.Tensor,
    num_pending: torch.Tensor,
    pending_rows: torch.Tensor,
    saves: torch.Tensor,
    restores: torch.Tensor,
    *,
    out: torch.Tensor,
    gate: OutputGate | None = None,
    overlap: bool = False,
) -> torch.Tensor:
    """Fold the pending rows into the state, then walk a tree of rows from there.

    The state moves on by the pending rows alone: what of this walk is accepted is folded by the
    next one, or by `delta_fold`. A row's output has the same bits in every tree, and those of
    single steps along its path.

    Args:
        q: fp32 [T, G, D], contiguous, T from 1 to 32; of length D^-0.5.
        v: bf16 [T, H, E], contiguous; H is a multiple of G.
        beta: fp32 [T, H], contiguous; how much a row writes, 0 to 1.
        state: fp32 [H, D, E], contiguous, holding all before the pending rows; written in place,
            untouched where nothing is pending.
        record: of one layer. Of half `parity`, rows up to T: k and decay are read, u is written.
            Of half 1 - `parity` the pending rows are read.
        parity: int32 [1], the half that this round writes, 0 or 1.
        num_pending: int32 [1], pending rows, 0 to 32.
        pending_rows: int32 [32], which rows of the other half, in order.
        saves: int32 [32], `TreeTables.saves` of a plan of T rows.
        restores: int32 [32], `TreeTables.restores`.
        out: bf16 [T, H, E] to write into, contiguous.
        gate: normalise the outputs head by head and gate them; None writes them as they are.
        overlap: start before the previous kernel of the stream has ended, and let the next one
            start early (programmatic dependent launch). Changes no bit. The state, the pending
            rows, the tables and the three scalars are read before that kernel ends: whatever
            writes them must have ended before the graph, or the last kernel without overlap,
            began.

    Returns:
        `out`.

    Raises:
        TypeError: a dtype is not one of those above.
        ValueError: shapes, strides or devices disagree, rows do not begin at whole 16 bytes of a
            GPU, T is not 1 to 32, or the kernel has no tile for heads of D keys and E values.

    Numerics:
        fp32 with fused multiply-adds in the order that walk.cu describes:
        u = beta (v - decay S'k), out = decay S'q + (k.q) u, S <- decay S + k u'. One rounding of
        the output to bf16; with a gate what `OutputGate` says follows, from that rounded output.
        On a CPU the operations of `delta_step_reference`.

    Side effects:
        One launch on the current stream; safe in capture after a first call has compiled and
        loaded the kernel.

    Source:
        Yang, Kautz, Hatamizadeh, "Gated Delta Networks", 2024, equation 10.
    """
    name = "delta_walk"
    axes = Axes(name)
    fp32 = (torch.float32,)
    axes.tensor("q", q, ("T", "G", "D"), fp32, "pass what conv_gates wrote")
    axes.tensor("v", v, ("T", "H", "E"), (torch.bfloat16,), "pass what conv_gates wrote")
    axes.tensor("beta", beta, ("T", "H"), fp32, "pass what conv_gates wrote")
    axes.tensor("state", state, ("H", "D", "E"), fp32, "pass the state of one layer")
    axes.tensor("out", out, ("T", "H", "E"), (torch.bfloat16,), "allocate it like v")
    expect_record(axes, name, record, ())
    expect_pending(axes, parity, num_pending, pending_rows)
    for title, table in (("saves", saves), ("restores", restores)):
        axes.tensor(title, table, ("32",), (torch.int32,), "pass the table of TreeTables")
    tensors = {
        "q": q, "v": v, "beta": beta, "state": state, "out": out,
        "record.k": record.k, "record.u": record.u, "record.decay": record.decay,
        "parity": parity, "num_pending": num_pending, "pending_rows": pending_rows,
        "saves": saves, "restores": restores,
    }  # fmt: skip
    expect_whole(axes, name, tensors)
    if gate is not None:
        expect_gate(axes, name, gate, q)
    if not 1 <= q.shape[0] <= MAX_ROWS:
        raise ValueError(
            f"{name}: got T = {q.shape[0]} rows, expected 1 to {MAX_ROWS}; "
            "call delta_prefill for more"
        )
    if not q.is_cuda:
        delta_walk_reference(
            q, v, beta, state, record, parity, num_pending, pending_rows, saves, restores,
            out=out, gate=gate,
        )  # fmt: skip
        if gate is not None and gate.operands is not None:
            gate.operands.fill(out.flatten(1))
        return out
    expect_tile(name, axes)
    pending = (parity, num_pending, pending_rows)
    launch_walk(q, v, beta, state, record, pending, (saves, restores), out, gate, overlap=overlap)
    return out


def expect_record(axes: Axes, name: str, record: DeltaRecord, layers: tuple[str, ...]) -> None:
    """Check a record's shapes: of one layer, or with the axis of layers in front.

    Raises:
        TypeError: a dtype is not fp32.
        ValueError: a shape disagrees, or H is no multiple of G.
    """
    if axes["H"] % axes["G"]:
        raise ValueError(
            f"{name}: H = {axes['H']} value heads do not divide among G = {axes['G']} key heads; "
            "pass the heads of one layer"
        )
    mend = "make the record by DeltaRecord.allocate"
    halves, fp32 = (*layers, "2", "32"), (torch.float32,)
    axes.tensor("record.k", record.k, (*halves, "G", "D"), fp32, mend)
    axes.tensor("record.u", record.u, (*halves, "H", "E"), fp32, mend)
    axes.tensor("record.decay", record.decay, (*halves, "H"), fp32, mend)


def expect_pending(
    axes: Axes,
    parity: torch.Tensor,
    num_pending: torch.Tensor,
    pending_rows: torch.Tensor,
) -> None:
    """Check what says what is pending: int32 [1], [1] and [32].

    Raises:
        TypeError: a dtype is not int32.
        ValueError: a shape disagrees.
    """
    int32, mend = (torch.int32,), "pass the round's own, on the device"
    axes.tensor("parity", parity, ("1",), int32, mend)
    axes.tensor("num_pending", num_pending, ("1",), int32, mend)
    axes.tensor("pending_rows", pending_rows, ("32",), int32, mend)


def expect_whole(axes: Axes, name: str, tensors: dict[str, torch.Tensor]) -> None:
    """Check that tensors are contiguous and on one device, rows where 16-byte loads can read them.

    Raises:
        ValueError: one is not.
    """
    axes.same_device(**tensors)
    for title, tensor in tensors.items():
        if not tensor.is_contiguous():
            raise ValueError(
                f"{name}: {title} must be contiguous, got strides {list(tensor.stride())}; "
                "pass the whole tensor"
            )
        if tensor.dim() > 2:
            axes.aligned(16, **{title: tensor})


def expect_tile(name: str, axes: Axes) -> None:
    """Check that the kernel takes heads of D keys and E values.

    Raises:
        ValueError: it does not.
    """
    if not fits(axes["D"], axes["E"]):
        raise ValueError(
            f"{name}: no tile for heads of D = {axes['D']} keys and E = {axes['E']} values: D must "
            f"be a multiple of {KEY_STRIDE} up to {MAX_KEY_DIM}, E a multiple of {VALUE_STRIDE}; "
            "run this model on the CPU"
        )
