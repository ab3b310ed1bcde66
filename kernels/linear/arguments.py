"""Check the arguments that the products for many rows have in common."""

from collections.abc import Sequence

import torch

from kernels.common.expect import Axes
from kernels.linear.weight import Weight, num_outputs


def expect_rows(axes: Axes, function: str, x: torch.Tensor, weight: Weight) -> None:
    """Check that rows fit a weight.

    Args:
        axes: of this call; binds T and K.
        function: public name that opens a message.
        x: bf16 [T, K], rows contiguous.
        weight: N rows of K inputs.

    Raises:
        TypeError: x is not bf16.
        ValueError: x has another shape or stride.
    """
    axes.tensor("x", x, ("T", "K"), (torch.bfloat16,), "pass hidden states as bf16 rows")
    if x.shape[1] != weight.K:
        raise ValueError(
            f"{function}: x must be [T, K] = [any, {weight.K}] for this weight, "
            f"got {list(x.shape)}; pass the rows that feed this projection"
        )


def expect_output(
    axes: Axes,
    function: str,
    x: torch.Tensor,
    weight: Weight,
    out: torch.Tensor | None,
    dtypes: Sequence[torch.dtype],
) -> torch.Tensor:
    """Check the results' tensor, or allocate it.

    Args:
        axes: of this call, T bound; binds N.
        function: public name that opens a message.
        x: the rows.
        weight: N rows of K inputs.
        out: [T, N], rows contiguous; None allocates bf16.
        dtypes: what `out` may be.

    Raises:
        TypeError: the dtype is none of these.
        ValueError: the shape or stride is another.
    """
    num_rows, N = x.shape[0], num_outputs(weight)
    out = x.new_empty((num_rows, N)) if out is None else out
    axes.tensor("out", out, ("T", "N"), dtypes, "allocate it as bf16 [T, N]")
    if out.shape[1] != N:
        raise ValueError(
            f"{function}: out must be [T, N] = [{num_rows}, {N}], got {list(out.shape)}; "
            "allocate it for this weight"
        )
    return out
