"""State the products in plain torch: bf16 outputs, fp32 logits, and what each format decodes to.

A format's value is defined here once; device code decodes to the same numbers.
"""

import torch
from torch.nn import functional

from kernels.linear.formats import E2M1_VALUES, FP8_BLOCK, NVFP4_GROUP

LOGIT_ROWS_PER_BLOCK = 8192
"""Weight rows widened to fp32 at a time, so that a head needs no second copy of itself."""


def linear_reference(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Multiply rows by a weight in one library product.

    Args:
        x: bf16 [T, K].
        weight: bf16 [N, K].

    Returns:
        bf16 [T, N].

    Numerics:
        fp32 accumulation, one rounding. The library may choose another order for another number of
        rows: row invariance holds only between calls of the same T.
    """
    return functional.linear(x, weight)


def linear_rows_reference(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Multiply rows by a weight, each row in a product of its own.

    Args:
        x: bf16 [T, K].
        weight: bf16 [N, K].

    Returns:
        bf16 [T, N]; row r has the bits of a call with row r alone.
    """
    if x.shape[0] == 1:
        return functional.linear(x, weight)
    rows = [functional.linear(row, weight) for row in x.split(1)]
    return torch.cat(rows) if rows else x.new_empty((0, weight.shape[0]))


def logits_reference(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Multiply rows by the head without rounding the result, each row in a product of its own.

    Args:
        x: bf16 [T, K].
        weight: bf16 [V, K].

    Returns:
        fp32 [T, V]; row r has the bits of a call with row r alone.

    Numerics:
        Operands widened exactly, products and sums in fp32.
    """
    out = torch.empty((x.shape[0], weight.shape[0]), dtype=torch.float32, device=x.device)
    rows = x.float().split(1)
    for start in range(0, weight.shape[0], LOGIT_ROWS_PER_BLOCK):
        block = weight[start : start + LOGIT_ROWS_PER_BLOCK].float()
        for index, row in enumerate(rows):
            torch.mm(row, block.t(), out=out[index : index + 1, start : start + block.shape[0]])
    return out


def e4m3_values(codes: torch.Tensor) -> torch.Tensor:
    """Widen e4m3 codes to fp32, exactly.

    On a CPU through a table of all 256 codes: 0.8 ns an element where torch's conversion takes 5.3
    (one Xeon core, 2026-11-29), which is what loading 8-bit weights there spends its time on.
    """
    if codes.is_cuda:
        return codes.float()
    table = torch.arange(256, dtype=torch.uint8).view(torch.float8_e4m3fn).float()
    return table.index_select(0, codes.view(torch.uint8).int().flatten()).view(codes.shape)


def fp8_block_dequantise(
    codes: torch.Tensor, scales: torch.Tensor, out: torch.Tensor | None = None
) -> torch.Tensor:
    """Widen 8-bit codes with one multiplier for each block of 128 x 128.

    Args:
        codes: e4m3 [N, K].
        scales: bf16 [ceil(N/128), ceil(K/128)], a multiplier in spite of the name it has on disk.
        out: bf16 [N, K] to write into. None allocates.

    Returns:
        bf16 [N, K]: float(code) * float(scale), rounded once.

    Source:
        The `fp8` layout of the Qwen3.5 to 3.8 FP8 releases.
    """
    num_rows, width = codes.shape
    wide = scales.float().repeat_interleave(FP8_BLOCK, 1)[:, :width]
    out = (
        torch.empty(codes.shape, dtype=torch.bfloat16, device=codes.device) if out is None else out
    )
    for block in range(scales.shape[0]):
        rows = slice(block * FP8_BLOCK, min(num_rows, (block + 1) * FP8_BLOCK))
        out[rows] = e4m3_values(codes[rows]) * wide[block]
    return out


def e4m3_row_dequantise(codes: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """Widen 8-bit codes with one multiplier a row.

    Args:
        codes: e4m3 [N, K].
        scales: fp32 [N].

    Returns:
        bf16 [N, K]: float(code) * scale, rounded once.
    """
    return (e4m3_values(codes) * scales[:, None]).bfloat16()


def nvfp4_dequantise(
    codes: torch.Tensor, scales: torch.Tensor, tensor_scale: torch.Tensor
) -> torch.Tensor:
    """Widen 4-bit codes with one e4m3 multiplier for 16 inputs and one fp32 multiplier for all.

    Args:
        codes: uint8 [N, K/2]; the low nibble is the even input.
        scales: e4m3 [N, K/16].
        tensor_scale: fp32 [], a multiplier.

    Returns:
        bf16 [N, K]: e2m1(code) * (float(scale) * tensor_scale), rounded once.
    """
    values = torch.tensor([*E2M1_VALUES, *(-value for value in E2M1_VALUES)], device=codes.device)
    nibbles = torch.stack((codes & 15, codes >> 4), -1).flatten(1)
    scale = (scales.float() * tensor_scale).repeat_interleave(NVFP4_GROUP, 1)
    return (values[nibbles.long()] * scale).bfloat16()
