"""Repeat the skinny kernel's order of sums in torch: slices, steps, instructions, a tree of slices.

What one matrix instruction does inside is not published, so the model adds the 16 products of an
instruction to the running sum without error and rounds once to fp32. A kernel's instruction keeps
two bits more than fp32 while it adds 17 operands shifted to the largest of them, and truncates:
it is off by at most 17/4 + 1 units of 2^-23 of that largest. The model counts those largest
operands, so kernel and model must agree within `UNITS` of the count, and model and an fp64 product
within half a unit. Both bounds follow the partial sums and not the inputs: a step left out, a scale
or a half of another one stands out.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch

from kernels.linear.formats import CHUNK_INPUTS, STEP
from kernels.linear.reference import exact_values
from kernels.linear.tile import SLICES
from kernels.linear.weight import (
    Bf16Weight,
    E4m3RowWeight,
    Fp8BlockWeight,
    Nvfp4Weight,
    Weight,
    format_name,
    padded_inputs,
)

UNIT = 2.0**-23
"""Distance of fp32 numbers from 1 to 2."""

UNITS = 6
"""Units of 2^-23 of the largest operand that an instruction of kernel and model may differ by."""

LARGEST_HALF = 65_504.0
"""The largest number of fp16."""


@dataclass(frozen=True)
class Sums:
    """What the kernel's fp32 output is, and what its roundings are measured by.

    Attributes:
        value: fp32 [T, N].
        size: fp64 [T, N], sum over all additions of the largest operand's magnitude.
    """

    value: torch.Tensor
    size: torch.Tensor


def skinny_sums(x: torch.Tensor, weight: Weight) -> Sums:
    """Multiply rows by a weight as skinny.cu does, before anything is rounded to bf16.

    Args:
        x: bf16 [T, K] on the CPU.
        weight: N rows of K inputs, on the CPU.
    """
    padded = torch.nn.functional.pad(x.double(), (0, padded_inputs(weight) - weight.K))
    operands, step_scales = operands_of(weight)
    cut = slices(padded.shape[1] // STEP)
    sums = [_slice(padded, operands, step_scales, steps, weight) for steps in cut]
    while len(sums) > 1:
        sums = [_added(left, right) for left, right in zip(sums[::2], sums[1::2], strict=True)]
    return _row_scaled(sums[0], weight)


def slices(num_steps: int, parts: int = SLICES) -> list[tuple[int, int]]:
    """Cut the steps of K: first and last + 1 of each slice, in order."""
    return [(i * num_steps // parts, (i + 1) * num_steps // parts) for i in range(parts)]


def instructions(name: str) -> Iterator[list[int]]:
    """List the 16 inputs of each of a step's eight instructions, in order.

    Lane t of four holds `CHUNK_INPUTS` inputs in a row of each load, and gives four of them to an
    instruction.
    """
    width = CHUNK_INPUTS[name]
    for first in range(0, 32, 4):
        base = first // width * 4 * width + first % width
        yield [base + t * width + i for t in range(4) for i in range(4)]


def range_factor(rows: torch.Tensor) -> torch.Tensor:
    """Return the power of two, fp64 [T, 1], that brings a slice of rows into the range of fp16."""
    largest = rows.abs().amax(dim=1, keepdim=True)
    exponent = torch.frexp(largest.clamp(min=2.0**-126)).exponent - 1
    moved = torch.exp2((14 - exponent).clamp(max=126).double())
    stays = (largest == 0) | ((largest >= 2.0**-6) & (largest <= LARGEST_HALF))
    return torch.where(stays, 1.0, moved)


def operands_of(weight: Weight) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Return what the matrix instruction multiplies, and what scales the sum of a step.

    Returns:
        fp64 [N, Kp], each a number of fp16 or bf16; and fp64 [N, Kp/128] or None.
    """
    padding = padded_inputs(weight) - weight.K
    step_scales: torch.Tensor | None = None
    if isinstance(weight, Bf16Weight):
        values = exact_values(weight)
    elif isinstance(weight, Fp8BlockWeight):
        values = exact_values(replace(weight, scales=torch.ones_like(weight.scales)))
        step_scales = weight.scales.double().repeat_interleave(128, 0)[: len(values)]
    else:
        values = exact_values(replace(weight, row_scales=torch.ones_like(weight.row_scales)))
    return torch.nn.functional.pad(values, (0, padding)), step_scales


def _slice(
    x: torch.Tensor,
    operands: torch.Tensor,
    step_scales: torch.Tensor | None,
    steps: tuple[int, int],
    weight: Weight,
) -> Sums:
    """Walk the steps of a slice and undo the factor of its activations."""
    inputs = slice(steps[0] * STEP, steps[1] * STEP)
    rows, factor = x[:, inputs], torch.ones((x.shape[0], 1), dtype=torch.float64)
    if not isinstance(weight, Bf16Weight) and rows.shape[1]:
        factor = range_factor(rows)
        rows = (rows * factor).half().double()
    sums = _zero(x.shape[0], operands.shape[0])
    for step in range(*steps):
        at = (step - steps[0]) * STEP
        part = _zero(*sums.value.shape) if step_scales is not None else sums
        for chosen in instructions(format_name(weight)):
            index = torch.tensor(chosen)
            products = rows[:, None, at + index] * operands[None, :, step * STEP + index]
            part = _instruction(part, products)
        sums = part if step_scales is None else _fused(part, step_scales[:, step], sums)
    return Sums((sums.value.double() / factor).float(), sums.size / factor)


def _instruction(sums: Sums, products: torch.Tensor) -> Sums:
    """Add 16 products to the running sums and round once."""
    before = sums.value.double()
    after = before + products.sum(dim=2)
    largest = torch.maximum(products.abs().amax(dim=2), torch.maximum(before.abs(), after.abs()))
    return Sums(after.float(), sums.size + largest)


def _fused(part: Sums, scales: torch.Tensor, sums: Sums) -> Sums:
    """Multiply a step's sums by its blocks' scales, add, and round once."""
    after = part.value.double() * scales + sums.value.double()
    return Sums(after.float(), part.size * scales + sums.size + after.abs())


def _added(sums: Sums, other: Sums) -> Sums:
    """Add in fp32."""
    after = sums.value + other.value
    return Sums(after, sums.size + other.size + after.abs())


def _row_scaled(sums: Sums, weight: Weight) -> Sums:
    """Multiply by the multiplier of a row in fp32."""
    if not isinstance(weight, E4m3RowWeight | Nvfp4Weight):
        return sums
    value = sums.value * weight.row_scales
    return Sums(value, sums.size * weight.row_scales + value.abs())


def _zero(num_rows: int, num_outputs: int) -> Sums:
    shape = (num_rows, num_outputs)
    return Sums(torch.zeros(shape), torch.zeros(shape, dtype=torch.float64))
