"""State the products in plain torch: bf16 outputs, fp32 logits, and what each format decodes to.

A format's value is defined here once; device code decodes to the same numbers.
"""

import math

import torch
from torch.nn import functional

from kernels.linear.formats import E2M1_VALUES, FP8_BLOCK, NVFP4_GROUP, STEP, TILE_ROWS
from kernels.linear.pack import stored_codes, unpack_scales
from kernels.linear.weight import (
    Bf16Weight,
    E4m3RowWeight,
    Fp8BlockWeight,
    Nvfp4Weight,
    Weight,
    num_outputs,
)

LOGIT_ROWS_PER_BLOCK = 8192
"""Weight rows widened to fp32 at a time, so that a head needs no second copy of itself."""

DECODE_ROWS_PER_BLOCK = 1024
"""Rows decoded at a time: index temporaries stay tens of megabytes whatever the matrix is."""


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
        weight: bf16 [V, K], or the same numbers in fp32.

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
        scales: bf16 or fp32 [ceil(N/128), ceil(K/128)], a multiplier in spite of the name it has
            on disk.
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
        tensor_scale: fp32 [], a multiplier, or [N, 1], one a row.

    Returns:
        bf16 [N, K]: e2m1(code) * (float(scale) * tensor_scale), rounded once.
    """
    values = torch.tensor([*E2M1_VALUES, *(-value for value in E2M1_VALUES)], device=codes.device)
    nibbles = torch.stack((codes & 15, codes >> 4), -1).flatten(1)
    scale = (scales.float() * tensor_scale).repeat_interleave(NVFP4_GROUP, 1)
    return (values[nibbles.long()] * scale).bfloat16()


def dequantise(weight: Weight) -> torch.Tensor:
    """Widen a packed weight to the BF16 that its checkpoint means.

    Args:
        weight: N rows of K inputs, in any format.

    Returns:
        bf16 [N, K], without the padding; of a BF16 weight a view.

    Numerics:
        Bit for bit what `fp8_block_dequantise`, `e4m3_row_dequantise` or `nvfp4_dequantise` makes
        of the checkpoint's tensors.
    """
    if isinstance(weight, Bf16Weight):
        return weight.values[:, : weight.K]
    if isinstance(weight, Fp8BlockWeight):
        return fp8_block_dequantise(weight.codes[:, : weight.K], weight.scales)
    size = (num_outputs(weight), weight.K)
    out = torch.empty(size, dtype=torch.bfloat16, device=weight.codes.device)
    scales = unpack_scales(weight) if isinstance(weight, Nvfp4Weight) else None
    for rows in _row_blocks(weight):
        multipliers = weight.row_scales[rows]
        if scales is None or not isinstance(weight, Nvfp4Weight):
            out[rows] = e4m3_row_dequantise(weight.codes[rows, : weight.K], multipliers)
        else:
            codes = stored_codes(weight, rows)[:, : weight.K // 2]
            groups = scales[rows, : weight.K // NVFP4_GROUP]
            out[rows] = nvfp4_dequantise(codes, groups, multipliers[:, None])
    return out


def exact_values(weight: Weight) -> torch.Tensor:
    """State what a packed weight's numbers are before any rounding.

    Shares nothing with `dequantise`: bytes are decoded by the definition of their format, and
    every element looks its scale up by its own coordinates.

    Args:
        weight: N rows of K inputs, in any format.

    Returns:
        fp64 [N, K]: code x scale, times the row's multiplier where the format has one. Exact: a
        code and an e4m3 scale have 6 significant bits together, an fp32 multiplier 24 more.
    """
    size = (num_outputs(weight), weight.K)
    out = torch.empty(size, dtype=torch.float64, device=weight.codes.device)
    for rows in _row_blocks(weight):
        out[rows] = _exact_rows(weight, rows)
    return out


def _exact_rows(weight: Weight, rows: slice) -> torch.Tensor:
    if isinstance(weight, Bf16Weight):
        return weight.values[rows, : weight.K].double()
    if isinstance(weight, Nvfp4Weight):
        return _exact_nvfp4_rows(weight, rows)
    codes = _looked_up(_e4m3_table(), weight.codes[rows, : weight.K])
    if isinstance(weight, E4m3RowWeight):
        return codes * weight.row_scales[rows, None].double()
    row = torch.arange(rows.start, rows.stop, device=codes.device)[:, None]
    column = torch.arange(weight.K, device=codes.device)
    return codes * weight.scales[row // FP8_BLOCK, column // FP8_BLOCK].double()


def _exact_nvfp4_rows(weight: Nvfp4Weight, rows: slice) -> torch.Tensor:
    packed = stored_codes(weight, rows)[:, : weight.K // 2]
    codes = torch.empty((packed.shape[0], weight.K), dtype=torch.float64, device=packed.device)
    table = torch.tensor([*E2M1_VALUES, *(-one for one in E2M1_VALUES)], dtype=torch.float64)
    codes[:, 0::2] = _looked_up(table, packed & 15)
    codes[:, 1::2] = _looked_up(table, packed >> 4)

    row = torch.arange(rows.start, rows.stop, device=packed.device)[:, None]
    group = torch.arange(0, weight.K, NVFP4_GROUP, device=packed.device)
    in_tile, in_step = row % TILE_ROWS, group % STEP
    scale_bytes = weight.scale_runs.view(torch.uint8)[
        row // TILE_ROWS,
        group // STEP,
        in_tile % 8,
        in_step // 32,
        in_tile // 8,
        in_step % 32 // 16,
    ]
    scales = _looked_up(_e4m3_table(), scale_bytes)
    values = codes.view(codes.shape[0], -1, NVFP4_GROUP) * scales[:, :, None]
    return values.flatten(1) * weight.row_scales[rows, None].double()


def _e4m3_table() -> torch.Tensor:
    """The number of every e4m3 byte, fp64 [256]."""
    return torch.tensor([_e4m3_number(byte) for byte in range(256)], dtype=torch.float64)


def _e4m3_number(byte: int) -> float:
    """One bit of sign, four of exponent with bias 7, three of mantissa; no infinities."""
    sign, exponent, mantissa = byte >> 7, byte >> 3 & 15, byte & 7
    if byte & 127 == 127:
        return math.nan
    magnitude = math.ldexp(8 + mantissa, exponent - 10) if exponent else math.ldexp(mantissa, -9)
    return -magnitude if sign else magnitude


def _looked_up(table: torch.Tensor, codes: torch.Tensor) -> torch.Tensor:
    index = codes.view(torch.uint8).int().flatten()
    return table.to(codes.device).index_select(0, index).view(codes.shape)


def _row_blocks(weight: Weight) -> list[slice]:
    num_rows = num_outputs(weight)
    starts = range(0, num_rows, DECODE_ROWS_PER_BLOCK)
    return [slice(start, min(num_rows, start + DECODE_ROWS_PER_BLOCK)) for start in starts]
