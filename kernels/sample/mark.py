"""Offer to mark what a round committed, for the penalties of the next."""

import torch

from kernels.common import interpreter
from kernels.common.expect import Axes
from kernels.sample.accept import COMMITTED
from kernels.sample.launch import ACCEPT_OPTIONS


def mark_rows(result: torch.Tensor, seen: torch.Tensor, generated: torch.Tensor) -> None:
    """Mark the committed ids of a round as seen and as generated.

    Args:
        result: int32 [80], as `accept` wrote it.
        seen: uint8 [V]; the entries of the committed ids become 1.
        generated: uint8 [V]; likewise.

    Raises:
        TypeError: a dtype is not one of those above.
        ValueError: a shape or device disagrees.

    Side effects:
        One launch of one warp on the current stream; safe in graph capture.
    """
    axes = Axes("mark_rows")
    axes.tensor("result", result, ("80",), (torch.int32,), "pass AcceptBuffers.result")
    axes.tensor("seen", seen, ("V",), (torch.uint8,), "give each id a byte")
    axes.tensor("generated", generated, ("V",), (torch.uint8,), "give each id a byte")
    axes.same_device(result=result, seen=seen, generated=generated)
    if not interpreter.on_kernels(result):
        committed = result[COMMITTED][: int(result[0])].long()
        seen[committed] = 1
        generated[committed] = 1
        return
    from kernels.sample.accept_kernel import mark_kernel

    mark_kernel[(1,)](result, seen, generated, **ACCEPT_OPTIONS)
