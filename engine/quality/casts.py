"""Count casts to e4m3 while a model runs: how many, and how many values did not fit.

E4M3 ends at 448. A cast behind a division by the largest value cannot leave it; one without a scale
can, or one behind a scale that was calibrated on another text, and neither says anything. Two views
of it: `CountedCasts` sees what torch computes, on any device, at a price; `KeptCodes` looks at what
stands in a store of keys and values, which the kernels of a GPU wrote.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from engine.model.state import State
from kernels.common.e4m3 import E4M3_MAX

BEYOND = 464.0
"""From here on a value lies nearer to the next number of three bits, 480, than to 448."""

CUT = cast("Any", torch.ops.aten.clamp).default

LAST_CODE = 0x7E
"""The byte of 448; with the sign, of -448."""


class CountedCasts(TorchDispatchMode):
    """Inside the block every cast of floating values to e4m3 is counted; slow, for debugging.

    Attributes:
        num_casts: calls.
        num_saturated: values of a cast, or of a cut at 448 before one, whose magnitude is `BEYOND`
            or more or that are no number.
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
        made = func(*args, **(kwargs or {}))
        if not isinstance(made, torch.Tensor):
            return made
        if made.dtype == torch.float8_e4m3fn:
            sources = [one for one in args[:2] if _is_wider_float(one)]
            if sources and "view" not in str(func):
                self.num_casts += 1
                self._count(sources[-1])
        elif func is CUT and tuple(args[1:]) == (-E4M3_MAX, E4M3_MAX):
            self._count(args[0])
        return made

    def _count(self, values: torch.Tensor) -> None:
        self.num_saturated += int((~(values.float().abs() < BEYOND)).sum())


def _is_wider_float(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point() and value.itemsize > 1


@dataclass(slots=True)
class KeptCodes:
    """Codes of keys and values that were written.

    Attributes:
        num_codes: looked at.
        num_last: of them 448 or -448, what every value from 432 on becomes: no fewer than were cut.
    """

    num_codes: int = 0
    num_last: int = 0

    def look_at(self, state: State) -> None:
        """Count what stands in a state whose keys and values are codes."""
        for store in (state.kv.keys, state.kv.values):
            codes = store[:, :, : state.length].view(torch.uint8)
            self.num_codes += codes.numel()
            self.num_last += int(((codes & 0x7F) == LAST_CODE).sum())
