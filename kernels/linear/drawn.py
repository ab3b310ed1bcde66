"""Draw products for laws, whose weights show which multipliers a launch takes."""

from dataclasses import replace

import torch

from kernels.common import domain
from kernels.common.case import Tensors
from kernels.common.domain import Domain
from kernels.linear.problems import product_case, weight_of
from kernels.linear.weight import Nvfp4Weight, Weight

MULTIPLIERS_APART = 11
"""Rows of a drawn 4-bit weight after which its multipliers repeat: no divisor of a tile's rows, nor
of what lies between gate and up here. They have 12 bits at most: times an e4m3 scale exact."""


def drawn(
    name: str,
    rows: int,
    num_outputs: int,
    num_inputs: int,
    device: str,
    values: Domain = domain.NORMAL,
    seed: int = 1,
    *,
    as_stored: bool = False,
) -> tuple[Tensors, Weight]:
    """Draw the tensors of a product, and pack its weight for the device.

    Rows of a 4-bit weight have multipliers of their own, as those of a fused group's members have:
    where all have the same, nobody sees which are taken.

    Args:
        name: the weight's format.
        rows: T.
        num_outputs: N.
        num_inputs: K.
        device: of the tensors.
        values: domain of the activations.
        seed: of the draw.
        as_stored: leave all rows the one multiplier among the tensors, for who multiplies those.
    """
    case = product_case("skinny_linear", name, rows, num_outputs, num_inputs, values)
    inputs = case.draw(seed, device)
    weight = weight_of(inputs)
    if isinstance(weight, Nvfp4Weight) and not as_stored:
        apart = torch.arange(num_outputs, device=device) % MULTIPLIERS_APART
        weight = replace(weight, row_scales=weight.row_scales * (1 + apart / 16))
    return inputs, weight
