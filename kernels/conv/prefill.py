"""Offer the convolution of many rows: check arguments, choose the build, launch."""

import torch

from kernels.common import interpreter
from kernels.common.expect import Axes
from kernels.common.launch_options import launch_options
from kernels.conv.arguments import (
    BF16,
    FP32,
    INT32,
    TAPS,
    checked_layer,
    constants_of,
    expect_contiguous,
    expect_width,
)
from kernels.conv.gates_reference import convolve_reference, gates_reference

PREFILL_ROWS = 16
"""Rows of one program of the prefill: 16 x 128 channels are 16 elements a thread of 4 warps."""


def conv_prefill(
    x: torch.Tensor,
    ab: torch.Tensor,
    weight: torch.Tensor,
    decay_rate: torch.Tensor,
    dt_bias: torch.Tensor,
    tail_in: torch.Tensor,
    *,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    tail_out: torch.Tensor,
    length: torch.Tensor | None = None,
) -> None:
    """Convolve many rows of one text and compute their gates, for the chunks of the delta rule.

    Args:
        x: bf16 [T, C], C = (2 G + H) D as q | k | v, rows contiguous, any row stride; any T.
        ab: bf16 [T, 2 H], a | b, any row stride.
        weight: bf16 [C, 4], contiguous.
        decay_rate: fp32 [H], -exp(A_log).
        dt_bias: fp32 [H].
        tail_in: bf16 [3, C], contiguous: the rows before x, oldest first; zeros at the start.
        q: bf16 [T, G, D] to write, not scaled; heads contiguous, any row stride, so that q, k and
            v may be views of one [T, C].
        k: bf16 [T, G, D] to write, as q.
        v: bf16 [T, H, D] to write, as q.
        g: fp32 [T, H] to write: the log decay, at most zero.
        beta: bf16 [T, H] to write.
        tail_out: bf16 [3, C] to write, contiguous: the rows before the next call; may be tail_in.
        length: int32 [1], the rows that are text, 1 to T, so that one captured launch serves many
            lengths. Behind them zeros are written, which leave the delta rule's state as it is.
            None: all T.

    Raises:
        TypeError: a dtype is not one of those above.
        ValueError: shapes, strides or devices disagree.

    Numerics:
        As `conv_gates`, with the same bits; a call cut anywhere gives the bits of the whole.

    Side effects:
        One launch on the current stream, none for no rows.

    Source:
        `Qwen3_5GatedDeltaNet`, transformers 5.24.
    """
    axes = checked_layer(Axes("conv_prefill"), x, ab, weight, decay_rate, dt_bias)
    axes.tensor("tail_in", tail_in, ("3", "C"), BF16, "pass the three rows before x")
    axes.tensor("q", q, ("T", "G", "D"), BF16, "allocate bf16 [T, G, D]")
    axes.tensor("k", k, ("T", "G", "D"), BF16, "allocate bf16 [T, G, D]")
    axes.tensor("v", v, ("T", "H", "D"), BF16, "allocate bf16 [T, H, D]")
    axes.tensor("g", g, ("T", "H"), FP32, "allocate fp32 [T, H]")
    axes.tensor("beta", beta, ("T", "H"), BF16, "allocate bf16 [T, H]")
    axes.tensor("tail_out", tail_out, ("3", "C"), BF16, "allocate it like tail_in")
    expect_width("conv_prefill", axes)
    expect_contiguous(
        "conv_prefill", weight=weight, tail_in=tail_in, tail_out=tail_out, g=g, beta=beta
    )
    for name, heads in (("q", q), ("k", k), ("v", v)):
        expect_contiguous("conv_prefill", **{f"{name}[0]": heads[:1]})
    given = {} if length is None else {"length": length}
    for name, tensor in given.items():
        axes.tensor(name, tensor, ("1",), INT32, "pass a scalar in device memory")
    axes.same_device(
        x=x, ab=ab, weight=weight, decay_rate=decay_rate, dt_bias=dt_bias, tail_in=tail_in,
        q=q, k=k, v=v, g=g, beta=beta, tail_out=tail_out, **given,
    )  # fmt: skip
    num_rows, half = axes["T"], axes["G"] * axes["D"]
    if not num_rows:
        tail_out.copy_(tail_in)
        return
    if not interpreter.on_kernels(x):
        places = torch.arange(num_rows)[:, None] + torch.arange(1 - TAPS, 1)
        y = convolve_reference(x, weight, tail_in, places)
        q.copy_(y[:, :half].reshape(q.shape))
        k.copy_(y[:, half : 2 * half].reshape(k.shape))
        v.copy_(y[:, 2 * half :].reshape(v.shape))
        decay, share = gates_reference(ab, decay_rate, dt_bias)
        g.copy_(decay)
        beta.copy_(share)
        num_read = num_rows if length is None else int(length)
        for written in (q, k, v, g, beta):
            written[num_read:] = 0
        tail_out.copy_(torch.cat((tail_in, x[:num_read]))[1 - TAPS :])
        return
    from kernels.conv.prefill_kernel import conv_prefill_kernel

    grid = (-(-num_rows // PREFILL_ROWS), 2 * axes["G"] + axes["H"] + 1)
    conv_prefill_kernel[grid](
        x, ab, weight.view(torch.int64), decay_rate, dt_bias, tail_in, q, k, v, g, beta, tail_out,
        x if length is None else length, num_rows,
        x.stride(0), ab.stride(0), q.stride(0), k.stride(0), v.stride(0),
        **constants_of("conv_prefill", axes), ROWS=PREFILL_ROWS, HAS_LENGTH=length is not None,
        **launch_options(4),
    )  # fmt: skip
