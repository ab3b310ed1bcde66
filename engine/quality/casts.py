"""Count casts to e4m3 while a model runs: how many, and how many values did not fit.

E4M3 ends at 448. A cast behind a division by a scale cannot leave it; one without a scale can, and
then says nothing. Sees what torch casts, on any device; kernels cast only what they scaled.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from kernels.common.e4m3 import E4M3_MAX


class CountedCasts(TorchDispatchMode):
    """Inside the block every cast of floating values to e4m3 is counted; slow, for debugging.

    Attributes:
        num_casts: calls.
        num_saturated: values whose magnitude is above 448 or that are no number.
    """

    def __init__(self) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType]
        self.num_casts = 0
        self.num_saturated = 0

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401  whatever the call returns
        """Run a call and look at what it made."""
        sources = [one for one in args[:2] if _is_wider_float(one)]
        made = func(*args, **(kwargs or {}))
        is_cast = isinstance(made, torch.Tensor) and made.dtype == torch.float8_e4m3fn
        if is_cast and sources and "view" not in str(func):
            self.num_casts += 1
            self.num_saturated += int((~(sources[-1].float().abs() <= E4M3_MAX)).sum())
        return made


def _is_wider_float(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point() and value.itemsize > 1
