"""Offer the embedding: check arguments, choose the build, launch."""

import torch

from kernels.common import interpreter
from kernels.common.expect import Axes
from kernels.common.launch_options import launch_options
from kernels.embed.reference import embed_reference

BF16, INT32 = (torch.bfloat16,), (torch.int32,)

LANES, NUM_WARPS = 1024, 4
"""Elements and warps of a program: 16 bytes a thread."""


def embed(
    ids: torch.Tensor, table: torch.Tensor, *, out: torch.Tensor, overlap: bool = False
) -> None:
    """Copy the table's row of each id.

    Args:
        ids: int32 [T], contiguous; an id outside 0 to V - 1 gives zeros and reads nothing.
        table: bf16 [V, D], rows contiguous, any row stride.
        out: bf16 [T, D] to write, rows contiguous, any row stride.
        overlap: whether the launch may begin before the kernel before it has ended; changes no
            bit. Every kernel of the stream must then wait for the one before, as this one does.

    Raises:
        TypeError: a dtype is not one of those above.
        ValueError: shapes, strides or devices disagree.

    Numerics:
        A copy: bit-equal to the table.

    Side effects:
        One launch on the current stream, none for no ids; safe in graph capture.
    """
    axes = Axes("embed")
    axes.tensor("ids", ids, ("T",), INT32, "pass token ids as int32")
    axes.tensor("table", table, ("V", "D"), BF16, "pass the embedding table")
    axes.tensor("out", out, ("T", "D"), BF16, "allocate bf16 [T, D]")
    axes.same_device(ids=ids, table=table, out=out)
    if not interpreter.on_kernels(ids):
        out.copy_(embed_reference(ids, table))
        return
    if num_rows := axes["T"]:
        from kernels.embed.kernel import embed_kernel

        embed_kernel[(num_rows, -(-axes["D"] // LANES))](
            ids, table, out, axes["V"], table.stride(0), out.stride(0), WIDTH=axes["D"],
            LANES=LANES, OVERLAP=overlap, **launch_options(NUM_WARPS, overlap=overlap),
        )  # fmt: skip
