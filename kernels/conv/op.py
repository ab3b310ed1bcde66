"""Offer the convolution with its gates: check arguments, choose the build, launch.

CUDA tensors go to the Triton kernels, or to rows.cu on an H200 where rows come with what their
a | b are the product of; CPU tensors to the torch references. In a process whose kernels were built
for Triton's interpreter (checks only) CPU tensors go to the Triton kernels too.
"""

import torch

from kernels.common import interpreter
from kernels.common.expect import Axes
from kernels.common.launch_options import launch_options
from kernels.common.round import MAX_ROWS
from kernels.conv.arguments import (
    BF16,
    FP32,
    INT32,
    GateInputs,
    checked_layer,
    constants_of,
    expect_contiguous,
    expect_width,
)
from kernels.conv.gates_reference import (
    convolve_reference,
    gates_product_reference,
    gates_reference,
    places_of,
    tail_behind_pending_reference,
    unit_length,
)
from kernels.conv.rows_launch import launch_rows, takes

FOLD_LANES = 512
"""Channels of one program of the fold."""


def conv_gates(
    x: torch.Tensor,
    ab: torch.Tensor | GateInputs,
    weight: torch.Tensor,
    decay_rate: torch.Tensor,
    dt_bias: torch.Tensor,
    tails: torch.Tensor,
    record_raw: torch.Tensor,
    record_k: torch.Tensor,
    record_decay: torch.Tensor,
    parity: torch.Tensor,
    num_pending: torch.Tensor,
    pending_rows: torch.Tensor,
    parents: torch.Tensor,
    *,
    q: torch.Tensor,
    v: torch.Tensor,
    beta: torch.Tensor,
    overlap: bool = False,
) -> None:
    """Convolve the rows of a verify along their paths, scale q and k, compute the gates.

    A row's window is the row, its three nearest ancestors, then the rows before row 0, newest
    first: the pending rows, then the tail. Half `1 - parity` of everything double-buffered is
    read, half `parity` written, so a call may be repeated.

    Args:
        x: bf16 [T, C], C = (2 G + H) D as q | k | v, rows contiguous, any row stride; 1 to 32 rows.
        ab: bf16 [T, 2 H], a | b, any row stride; or what they are the product of, which is then
            multiplied in the same launch.
        weight: bf16 [C, 4], contiguous, the last tap for the row itself.
        decay_rate: fp32 [H], -exp(A_log).
        dt_bias: fp32 [H].
        tails: bf16 [2, 3, C]: read, the rows before the pending rows, oldest first; written, the
            rows before row 0.
        record_raw: bf16 [2, 32, C]: read, the rows of the last round; written, x.
        record_k: fp32 [2, 32, G, D], written: k of length one.
        record_decay: fp32 [2, 32, H], written: exp(g), 0 to 1.
        parity: int32 [1], the half to write.
        num_pending: int32 [1], accepted rows of the last round, 0 to 32.
        pending_rows: int32 [32], which rows, in order.
        parents: int32 [32], row that each row follows, -1 for row 0.
        q: fp32 [T, G, D] to write: length D^-0.5.
        v: bf16 [T, H, D] to write.
        beta: fp32 [T, H] to write: the bf16 sigmoid of b, widened.
        overlap: whether the launch may begin before the kernel before it has ended; changes no
            bit. Every kernel of the stream must then wait for the one before, as this one does.
            Scalars, tables, tails and the last round's rows are read before that kernel ends:
            what writes them must have ended before the graph, or the last kernel without
            overlap, began. So are the rows that a | b are the product of: they must be older than
            that kernel, and it must have waited before it let this one start, as products do; beta
            and decay may be written before it ends, so it may not touch them.

    Raises:
        TypeError: a dtype is not one of those above.
        ValueError: shapes, strides or devices disagree.

    Numerics:
        Convolution: fp32 from the oldest tap on, products and sums rounded apart, -> bf16; SiLU,
        -> bf16. Length: fp32, squares summed over a fixed tree, x / sqrt(sum + 1e-6). Gates: fp32,
        softplus linear above 20, sigmoid -> bf16. A product of a | b: fp32, 512 sums side by
        side, products and sums rounded apart, then a fixed tree; -> bf16. IEEE operations
        throughout, so the bits are those of `gates_reference.KERNEL` on every GPU. A row's bits
        depend on its path alone.

    Side effects:
        One launch on the current stream, none for no rows; safe in graph capture.

    Source:
        `Qwen3_5GatedDeltaNet`, transformers 5.24.
    """
    axes = checked_layer(Axes("conv_gates"), x, ab, weight, decay_rate, dt_bias)
    axes.tensor("tails", tails, ("2", "3", "C"), BF16, "pass bf16 [2, 3, C]")
    axes.tensor("record_raw", record_raw, ("2", "32", "C"), BF16, "pass bf16 [2, 32, C]")
    record = ("2", "32")
    axes.tensor("record_k", record_k, (*record, "G", "D"), FP32, "pass fp32 [2, 32, G, D]")
    axes.tensor("record_decay", record_decay, (*record, "H"), FP32, "pass fp32 [2, 32, H]")
    for name, scalar in (("parity", parity), ("num_pending", num_pending)):
        axes.tensor(name, scalar, ("1",), INT32, "pass a scalar in device memory")
    for name, rows in (("pending_rows", pending_rows), ("parents", parents)):
        axes.tensor(name, rows, ("32",), INT32, "pass one entry a row of a record")
    axes.tensor("q", q, ("T", "G", "D"), FP32, "allocate fp32 [T, G, D]")
    axes.tensor("v", v, ("T", "H", "D"), BF16, "allocate bf16 [T, H, D]")
    axes.tensor("beta", beta, ("T", "H"), FP32, "allocate fp32 [T, H]")
    expect_width("conv_gates", axes)
    expect_contiguous(
        "conv_gates", weight=weight, tails=tails, record_raw=record_raw, record_k=record_k,
        record_decay=record_decay, q=q, v=v, beta=beta,
    )  # fmt: skip
    inputs, gates_weight, num_inputs = (
        (ab.rows, ab.weight, axes["K"]) if isinstance(ab, GateInputs) else (ab, ab, 0)
    )
    axes.same_device(
        x=x, ab=inputs, ab_weight=gates_weight, weight=weight, decay_rate=decay_rate,
        dt_bias=dt_bias, tails=tails, record_raw=record_raw, record_k=record_k,
        record_decay=record_decay, parity=parity, num_pending=num_pending,
        pending_rows=pending_rows, parents=parents, q=q, v=v, beta=beta,
    )  # fmt: skip
    num_rows, half = axes["T"], axes["G"] * axes["D"]
    if num_rows > MAX_ROWS:
        raise ValueError(
            f"conv_gates: {num_rows} rows came, a record holds {MAX_ROWS}; "
            "verify at most 32 rows a call, or use conv_prefill"
        )
    if not num_rows:
        return
    if not interpreter.on_kernels(x):
        writes = int(parity)
        tail = tail_behind_pending_reference(
            tails[1 - writes], record_raw[1 - writes], int(num_pending), pending_rows
        )
        # row by row: torch's vector loops give an element other bits at another place.
        for row, places in enumerate(places_of(parents[:num_rows]).split(1)):
            y = convolve_reference(x, weight, tail, places)[0]
            of_row = inputs[row]
            if num_inputs:
                of_row = gates_product_reference(inputs[row : row + 1], gates_weight)[0]
            g, share = gates_reference(of_row, decay_rate, dt_bias)
            heads = (axes["G"], axes["D"])
            q[row] = unit_length(y[:half].view(heads).float()) * axes["D"] ** -0.5
            record_k[writes, row] = unit_length(y[half : 2 * half].view(heads).float())
            v[row] = y[2 * half :].view(v.shape[1:])
            beta[row] = share
            record_decay[writes, row] = g.exp()
        record_raw[writes, :num_rows] = x
        tails[writes] = tail
        return
    others = (
        weight, decay_rate, dt_bias, tails, record_raw, record_k, record_decay, parity,
        num_pending, pending_rows, parents, q, v, beta,
    )  # fmt: skip
    if isinstance(ab, GateInputs) and takes(x, ab, axes["D"], others):
        launch_rows(x, ab, (axes["G"], axes["H"]), others, overlap=overlap)
        return
    from kernels.conv.kernel import conv_gates_kernel

    constants = constants_of("conv_gates", axes)
    num_gates = axes["H"] if num_inputs else 1
    conv_gates_kernel[(num_gates + 2 * axes["G"] + axes["H"], num_rows)](
        x, inputs, gates_weight, weight.view(torch.int64), decay_rate, dt_bias, tails,
        record_raw, record_k, record_decay, parity, num_pending, pending_rows, parents, q, v, beta,
        x.stride(0), inputs.stride(0), gates_weight.stride(0), **constants,
        PAIRS=axes["D"].bit_length() - 1, Q_SCALE=axes["D"] ** -0.5, INPUTS=num_inputs,
        OVERLAP=overlap,
        **launch_options(warps_of(num_rows, multiplies=bool(num_inputs)), overlap=overlap),
    )  # fmt: skip


def conv_fold(
    tails: torch.Tensor,
    record_raw: torch.Tensor,
    parity: torch.Tensor,
    num_pending: torch.Tensor,
    pending_rows: torch.Tensor,
) -> None:
    """Move the tails of all layers behind their pending rows, in both halves.

    The caller sets `num_pending` to zero afterwards; the tails then serve either parity.

    Args:
        tails: bf16 [layers, 2, 3, C], contiguous; half `1 - parity` is read, both are written.
        record_raw: bf16 [layers, 2, 32, C], contiguous; half `1 - parity` is read.
        parity: int32 [1], the half that the next round writes.
        num_pending: int32 [1], 0 to 32.
        pending_rows: int32 [32].

    Raises:
        TypeError: a dtype is not one of those above.
        ValueError: shapes, strides or devices disagree.

    Side effects:
        One launch on the current stream; safe in graph capture.
    """
    axes = Axes("conv_fold")
    axes.tensor("tails", tails, ("layers", "2", "3", "C"), BF16, "pass all layers' tails")
    record = ("layers", "2", "32", "C")
    axes.tensor("record_raw", record_raw, record, BF16, "pass all layers' records")
    axes.tensor("parity", parity, ("1",), INT32, "pass a scalar in device memory")
    axes.tensor("num_pending", num_pending, ("1",), INT32, "pass a scalar in device memory")
    axes.tensor("pending_rows", pending_rows, ("32",), INT32, "pass one entry a row")
    expect_contiguous("conv_fold", tails=tails, record_raw=record_raw)
    axes.same_device(
        tails=tails, record_raw=record_raw, parity=parity, num_pending=num_pending,
        pending_rows=pending_rows,
    )  # fmt: skip
    if not axes["layers"]:
        return
    if not interpreter.on_kernels(tails):
        last = 1 - int(parity)
        for tail, raw in zip(tails, record_raw, strict=True):
            tail[:] = tail_behind_pending_reference(
                tail[last], raw[last], int(num_pending), pending_rows
            )
        return
    from kernels.conv.kernel import conv_fold_kernel

    conv_fold_kernel[(-(-axes["C"] // FOLD_LANES), axes["layers"])](
        tails, record_raw, parity, num_pending, pending_rows, WIDTH=axes["C"], LANES=FOLD_LANES,
        **launch_options(4),
    )  # fmt: skip


def warps_of(num_rows: int, *, multiplies: bool) -> int:
    """Choose the warps of a verify's programs: more while there are few. Changes no bit."""
    if not multiplies:
        return 2 if num_rows <= 4 else 1
    return 4 if num_rows <= 4 else 2 if num_rows <= 8 else 1
