"""Compute what the products mean in fp64, from a checkpoint's tensors, and how far off is right.

Written apart from packing, kernels and reference: bytes are decoded by torch's own conversion or by
the table of the format, and scales are spread out over the whole matrix. What a product may be off
by follows from its inputs; every truth adds it as `out_slack` (`kernels/common/family.py`).

Let S = sum over k of |x_k w_k|. An addition that truncates to fp32 moves a sum by at most
2^-23 S, and so does each operand that a tensor core shifts to the largest of the 17 it adds.

- Any order of K products and additions: 17/16 K 2^-23 S. It covers torch, Triton, both devices.
- The skinny kernel sums 8 slices of K apart, in order within a slice of at most ceil(steps / 8)
  steps: 8 instructions of 17 operands a step, and one addition of a block format. The slices' sums
  are added as a binary tree, each of its 3 levels rounded: 3 x 2^-24 S.
- Activations in fp16: a value moves by at most 2^-25 where its slice stays as it is (largest value
  in [2^-6, 65504]), by 2^-39 of the slice's largest where a power of two moves it to [2^14, 2^15).
"""

import torch

from kernels.common import interpreter
from kernels.common.case import Tensors
from kernels.common.compare import BF16_ROUNDING
from kernels.linear.formats import E2M1_VALUES, FP8_BLOCK, NVFP4_GROUP, STEP
from kernels.linear.tile import SLICES

TRUNCATION = 2.0**-23
ROWS_AT_A_TIME = 16_384

SUBNORMAL = 2.0**-133
"""More than a rounding among bf16's subnormals moves a number."""


def weight_rows(inputs: Tensors, rows: slice) -> torch.Tensor:
    """Decode rows of a weight, exactly.

    Args:
        inputs: the tensors of a case.
        rows: which.

    Returns:
        fp64 [rows, K].
    """
    if "values" in inputs:
        return inputs["values"][rows].double()
    codes, scales = inputs["codes"][rows], inputs["scales"]
    if "tensor_scale" in inputs:
        table = torch.tensor([*E2M1_VALUES, *(-one for one in E2M1_VALUES)], dtype=torch.float64)
        pairs = torch.stack((codes % 16, codes // 16), dim=2).flatten(1)
        values = table.to(codes.device)[pairs.int()]
        groups = scales[rows].float().double().repeat_interleave(NVFP4_GROUP, dim=1)
        return values * groups * inputs["tensor_scale"].double()
    values = codes.float().double()
    if scales.dim() == 1:
        return values * scales[rows].double()[:, None]
    across = scales.double().repeat_interleave(FP8_BLOCK, dim=1)[:, : codes.shape[1]]
    block = torch.arange(rows.start, rows.stop, device=codes.device) // FP8_BLOCK
    return values * across[block]


def on_skinny_kernel(inputs: Tensors) -> bool:
    """Say whether the skinny kernel runs on these tensors, and not the library's products."""
    return inputs["x"].is_cuda


def on_device_code(inputs: Tensors) -> bool:
    """Say whether Triton's kernels run on these tensors, natively or interpreted."""
    return interpreter.on_kernels(inputs["x"])


def products(
    inputs: Tensors, steps: torch.Tensor | None, *, rounded: bool
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Multiply rows by a weight, block after block of its rows.

    Args:
        inputs: the tensors of a case.
        steps: fp64 [T, K], how far each activation may be off; None for not at all.
        rounded: take the weight's values rounded to bf16, as the library products do.

    Returns:
        fp64 [T, N] each: the products, S, and the sums of steps x |weight|.
    """
    x = inputs["x"].double()
    num_outputs = (inputs["values"] if "values" in inputs else inputs["codes"]).shape[0]
    found: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = []
    for start in range(0, num_outputs, ROWS_AT_A_TIME):
        weight = weight_rows(inputs, slice(start, min(start + ROWS_AT_A_TIME, num_outputs)))
        # fp32 first, as every decoder does: one rounding would differ from two.
        weight = weight.float().bfloat16().double() if rounded else weight
        sizes = weight.abs().t()
        total = x.abs() @ sizes
        moved = torch.zeros_like(total) if steps is None else steps @ sizes
        found.append((x @ weight.t(), total, moved))
    product, total, moved = (torch.cat(parts, dim=1) for parts in zip(*found, strict=True))
    return product, total, moved


def skinny_product(inputs: Tensors) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the fp64 products of the skinny path and how far its fp32 sums may be off."""
    num_inputs = inputs["x"].shape[1]
    if not on_skinny_kernel(inputs):
        product, total, _ = products(inputs, None, rounded=True)
        return product, sums_in_any_order(num_inputs) * total
    product, total, moved = products(inputs, half_steps(inputs), rounded=False)
    return product, sums_in_slices(num_inputs) * total + 1.01 * moved


def half_steps(inputs: Tensors) -> torch.Tensor | None:
    """How far an activation may be off in fp16, fp64 [T, K]; None for a BF16 weight, not at all."""
    if "values" in inputs:
        return None
    x = inputs["x"].double()
    largest = x.abs().amax(dim=1, keepdim=True)
    kept = torch.where(largest >= 2.0**-6, 2.0**-25, 0.0).double()
    return torch.maximum(2.0**-39 * largest, kept).expand_as(x)


def sums_in_any_order(num_inputs: int) -> float:
    """Share of S that K additions may be off by."""
    padded = -(-num_inputs // STEP) * STEP
    return 17 / 16 * padded * TRUNCATION


def sums_in_slices(num_inputs: int) -> float:
    """Share of S that the skinny kernel's additions may be off by."""
    steps = -(-num_inputs // STEP)
    longest = -(-steps // SLICES)
    return (17 * 8 + 1) * longest * TRUNCATION + 3 * TRUNCATION / 2


def truth_skinny(inputs: Tensors) -> Tensors:
    """State a product, and with a residual their sum."""
    product, slack = skinny_product(inputs)
    if "residual" not in inputs:
        return {"out": product, "out_slack": slack}
    slack = slack + BF16_ROUNDING * (product.abs() + slack) + SUBNORMAL
    total = product + inputs["residual"].double()
    return {"out": total, "out_slack": (1 + BF16_ROUNDING) * slack}


def truth_pair(inputs: Tensors) -> Tensors:
    """State silu(gate) * up of one product.

    SiLU's slope is below 1.1, so gate's error reaches it times 1.1; fp32 SiLU is off by 16
    roundings and is zero below -88.7, where the truth is at most 3e-37.
    """
    product, slack = skinny_product(inputs)
    slack = slack + BF16_ROUNDING * (product.abs() + slack) + SUBNORMAL
    (gate, up), (gate_slack, up_slack) = product.chunk(2, dim=1), slack.chunk(2, dim=1)
    silu = gate * torch.sigmoid(gate)
    silu_slack = 1.1 * gate_slack + BF16_ROUNDING * 1.01 * (silu.abs() + gate_slack) + 1e-36
    out_slack = silu_slack * up.abs() + silu.abs() * up_slack + silu_slack * up_slack
    return {"out": silu * up, "out_slack": (1 + BF16_ROUNDING) * out_slack}


def truth_middle(inputs: Tensors) -> Tensors:
    """State a product of many rows; a block format's weight may be rounded to bf16."""
    product, total, _ = products(inputs, None, rounded=not on_device_code(inputs))
    share = sums_in_any_order(inputs["x"].shape[1])
    is_block = "scales" in inputs and "tensor_scale" not in inputs and inputs["scales"].dim() == 2
    folded = BF16_ROUNDING if is_block and on_device_code(inputs) else 0.0
    return {"out": product, "out_slack": (share + folded) * total}


def truth_prefill(inputs: Tensors) -> Tensors:
    """State a product whose activations, and 4-bit weights, may be rounded to e4m3.

    An activation moves by 2^-4 of itself or 2^-10 of its scale, which is 1/448 of the largest of
    its 128 inputs for a block format, else of its row. Hopper's FP8 tensor cores keep 14 bits while
    they add a step's 128 products in four instructions of 33 operands: 132 x 2^-13 S, where S is
    that of the rounded operands.
    """
    x = inputs["x"].double()
    num_rows, num_inputs = x.shape
    padded = torch.nn.functional.pad(x.abs(), (0, -num_inputs % STEP))
    is_block = inputs["scales"].dim() == 2 and "tensor_scale" not in inputs
    groups = padded.view(num_rows, -1, STEP if is_block else padded.shape[1])
    scales = groups.amax(dim=2).clamp(min=448 * 2.0**-126) / 448
    smallest = 2.0**-10 * scales.repeat_interleave(groups.shape[2], dim=1)[:, :num_inputs]
    steps = torch.maximum(2.0**-4 * x.abs(), smallest)
    weight = weight_rows(inputs, slice(0, inputs["codes"].shape[0]))
    rounded = weight.abs() + _requantising_steps(inputs, weight)
    total = (x.abs() + steps) @ rounded.t()
    moved = total - x.abs() @ weight.abs().t()
    share = 132 * 2.0**-13 + sums_in_any_order(num_inputs)
    return {"out": x @ weight.t(), "out_slack": 1.001 * (moved + share * total)}


def _requantising_steps(inputs: Tensors, weight: torch.Tensor) -> torch.Tensor | float:
    """How far each weight moves when 4-bit codes are rounded to e4m3; nothing for 8-bit ones.

    A code times an e4m3 scale is 3 x 2^i x (8 to 15) at worst: of these 42 is the farthest from
    four significant bits, by 2. Below, e4m3 steps by 2^-9 of the row's multiplier, which is 2^-5 of
    the power of two at or below its largest group scale.
    """
    if "tensor_scale" not in inputs:
        return 0.0
    largest = inputs["scales"].float().double().amax(dim=1).clamp(min=2.0**-9)
    multipliers = torch.exp2(torch.log2(largest).floor() - 5) * inputs["tensor_scale"].double()
    return torch.maximum(weight.abs() / 21, 2.0**-10 * multipliers[:, None])


def truth_expand(inputs: Tensors) -> Tensors:
    """State a weight's values."""
    num_outputs = (inputs["values"] if "values" in inputs else inputs["codes"]).shape[0]
    return {"out": weight_rows(inputs, slice(0, num_outputs))}


def truth_silu_mul(inputs: Tensors) -> Tensors:
    """State silu(gate) * up."""
    gate = inputs["gate"].double()
    return {"out": gate * torch.sigmoid(gate) * inputs["up"].double()}
