"""Name the value ranges that inputs are drawn from, ordinary and hostile.

A domain is a name and a way to draw fp32 values of a shape from a generator. A kernel's contract
holds on all of them; the hostile ones are where masks, eps and rounding go wrong unseen.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch

Draw = Callable[[tuple[int, ...], torch.Generator], torch.Tensor]


@dataclass(frozen=True)
class Domain:
    """A named distribution of input values.

    Attributes:
        name: as labels show it.
        draw: draws fp32 values of a shape.
        period: values drawn at most, which larger tensors repeat one after another; None draws
            every value. A prime keeps the rows of a matrix apart. For matrices of a billion
            elements, which a CPU would draw for minutes.
    """

    name: str
    draw: Draw
    period: int | None = None


def normal(name: str, scale: float, mean: float = 0.0) -> Domain:
    """Make a domain of normal values."""

    def draw(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
        return torch.randn(shape, generator=generator) * scale + mean

    return Domain(name, draw)


def _outliers(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    """Draw normal values with every 97th channel 3,000 times larger."""
    values = torch.randn(shape, generator=generator)
    values[..., ::97] *= 3000.0
    return values


def _zero_rows(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    """Draw normal values and set every even row to zero."""
    values = torch.randn(shape, generator=generator)
    values[::2] = 0.0
    return values


def _wide_exponents(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    """Draw normal values times powers of two from 2^-40 to 2^40."""
    exponents = torch.randint(-40, 41, shape, generator=generator)
    return torch.ldexp(torch.randn(shape, generator=generator), exponents)


NORMAL = normal("normal", 1.0)
"""Standard normal: what a hidden state looks like after a norm."""

OUTLIERS = Domain("outliers", _outliers)
"""A few channels thousands of times larger, as residual streams of deep models have them."""

ZERO_ROWS = Domain("zero-rows", _zero_rows)
"""Rows of zeros among ordinary ones: only eps keeps them from 0 / 0."""

TINY = normal("tiny", 2.0**-80)
"""So small that squares vanish in fp32: eps alone sets the scale."""

HUGE = normal("huge", 2.0**54)
"""Near the largest magnitude whose squares still sum in fp32."""

WIDE_EXPONENTS = Domain("wide-exponents", _wide_exponents)
"""Exponents spread over 80 binades: sums lose their small terms, gates saturate both ways."""

HOSTILE = (OUTLIERS, ZERO_ROWS, TINY, HUGE, WIDE_EXPONENTS)
"""Every domain that is not ordinary."""
