"""Pack a checkpoint's tensors into the weights that the kernels read, once, at load.

Codes keep the order they have on disk: where K is whole steps already, a packed weight shares the
checkpoint's memory. Only scales are rearranged. What a kernel takes on trust is checked (no NaN
among the codes, every scale finite and without a sign: `stored.py`), at one pass over a tensor or
two, no temporaries of its size and one wait for the device.
"""

from collections.abc import Sequence
from dataclasses import fields, replace

import torch

from kernels.common.expect import Axes
from kernels.linear.formats import FP8_BLOCK, NVFP4_GROUP, STEP, TILE_ROWS
from kernels.linear.spread import gather_words, spread_words
from kernels.linear.stored import (
    expect_stored,
    refuse_bad_scales,
    refuse_empty,
    refuse_nan,
    refuse_signed_or_nan,
)
from kernels.linear.weight import (
    Bf16Weight,
    E4m3RowWeight,
    Fp8BlockWeight,
    Nvfp4Weight,
    Weight,
    format_name,
    num_outputs,
)

E4M3 = torch.float8_e4m3fn

ALIGNMENT = 16
"""Bytes of a kernel's widest load; codes that start elsewhere are copied."""

MEMBER_ROWS: dict[type, int] = {Fp8BlockWeight: FP8_BLOCK, Nvfp4Weight: TILE_ROWS}
"""Rows whose scales lie together: a member that another follows holds whole multiples of them."""


def pack_bf16(values: torch.Tensor) -> Bf16Weight:
    """Pack a plain matrix.

    Args:
        values: bf16 [N, K], rows contiguous. Shared, not copied, where it is contiguous, starts at
            a multiple of 16 bytes and K is a multiple of 128.

    Returns:
        The weight, padded with zeros to Kp.

    Raises:
        TypeError: the dtype is another.
        ValueError: the shape is no matrix, or it is empty.
    """
    axes = Axes("pack_bf16")
    axes.tensor("values", values, ("N", "K"), (torch.bfloat16,), "pass the matrix as bf16 rows")
    refuse_empty("pack_bf16", "values", values)
    return Bf16Weight(_held(values, axes["K"]), axes["K"])


def pack_fp8_block(codes: torch.Tensor, scales: torch.Tensor) -> Fp8BlockWeight:
    """Pack 8-bit codes with one multiplier for each block of 128 x 128.

    Args:
        codes: e4m3 [N, K], rows contiguous. Shared as in `pack_bf16`.
        scales: bf16 [ceil(N/128), ceil(K/128)], multipliers, finite, 0 or more.

    Returns:
        The weight: scales widened to fp32, exactly; codes padded with zeros to Kp.

    Raises:
        TypeError: a dtype is not one of those above.
        ValueError: shapes or devices disagree, a code is NaN, or a scale is negative or not finite.

    Source:
        The `fp8` layout of the Qwen3.5 to 3.8 FP8 releases (`weight`, `weight_scale_inv`).
    """
    function = "pack_fp8_block"
    axes = Axes(function)
    axes.tensor("codes", codes, ("N", "K"), (E4M3,), "pass the stored 8-bit codes")
    refuse_empty(function, "codes", codes)
    blocks = (_ceil(axes["N"], FP8_BLOCK), _ceil(axes["K"], FP8_BLOCK))
    expect_stored(
        function, "scales", scales, "[ceil(N/128), ceil(K/128)]", blocks, torch.bfloat16,
        "pass the multipliers stored with these codes",
    )  # fmt: skip
    axes.same_device(codes=codes, scales=scales)
    refuse_nan(function, "codes", codes)
    refuse_bad_scales(function, "scales", scales)
    held = _held(codes, axes["K"])
    return Fp8BlockWeight(held, scales.float().contiguous(), axes["K"])


def pack_e4m3_row(codes: torch.Tensor, scales: torch.Tensor) -> E4m3RowWeight:
    """Pack 8-bit codes with one multiplier a row.

    Args:
        codes: e4m3 [N, K], rows contiguous. Shared as in `pack_bf16`.
        scales: fp32 [N], contiguous, finite, 0 or more. Shared.

    Returns:
        The weight, codes padded with zeros to Kp.

    Raises:
        TypeError: a dtype is not one of those above.
        ValueError: shapes or devices disagree, a code is NaN, or a scale is negative or not finite.
    """
    function = "pack_e4m3_row"
    axes = Axes(function)
    axes.tensor("codes", codes, ("N", "K"), (E4M3,), "pass the stored 8-bit codes")
    refuse_empty(function, "codes", codes)
    mend = "pass one multiplier a row, widened to fp32"
    axes.tensor("scales", scales, ("N",), (torch.float32,), mend)
    axes.same_device(codes=codes, scales=scales)
    refuse_nan(function, "codes", codes)
    refuse_bad_scales(function, "scales", scales)
    return E4m3RowWeight(_held(codes, axes["K"]), scales, axes["K"])


def pack_nvfp4(
    codes: torch.Tensor, scales: torch.Tensor, tensor_scale: torch.Tensor, *, spread: bool = False
) -> Nvfp4Weight:
    """Pack 4-bit codes with one e4m3 multiplier for 16 inputs and one fp32 multiplier for all.

    Args:
        codes: uint8 [N, K/2], rows contiguous; the low nibble is the even input. Shared as in
            `pack_bf16`.
        scales: e4m3 [N, K/16], rows contiguous, no NaN, sign bit clear.
        tensor_scale: fp32 [], a multiplier, finite, 0 or more. A checkpoint that stores a divisor
            is inverted before.
        spread: order the codes' bits for a GPU without a converter, in new memory.

    Returns:
        The weight: scales in the order of `Nvfp4Weight.scale_runs`, with zero for the rows and
        inputs that pad it; the multiplier repeated for every row.

    Raises:
        TypeError: a dtype is not one of those above.
        ValueError: shapes or devices disagree, K is not a multiple of 16, or a scale is not as
            described.
    """
    function = "pack_nvfp4"
    axes = Axes(function)
    axes.tensor("codes", codes, ("N", "K/2"), (torch.uint8,), "pass the stored bytes of two codes")
    refuse_empty(function, "codes", codes)
    num_rows, width = axes["N"], 2 * axes["K/2"]
    if width % NVFP4_GROUP:
        raise ValueError(
            f"{function}: codes [N, K/2] have K = {width}, expected a multiple of {NVFP4_GROUP}, "
            "the inputs of one scale; pass whole groups of codes"
        )
    expect_stored(
        function, "scales", scales, "[N, K/16]", (num_rows, width // NVFP4_GROUP), E4M3,
        "pass the group multipliers stored with these codes, not swizzled",
    )  # fmt: skip
    expect_stored(
        function, "tensor_scale", tensor_scale, "[]", (), torch.float32,
        "pass the one multiplier of the tensor as a scalar",
    )  # fmt: skip
    axes.same_device(codes=codes, scales=scales, tensor_scale=tensor_scale)
    refuse_signed_or_nan(function, "scales", scales)
    refuse_bad_scales(function, "tensor_scale", tensor_scale)
    held = _held(codes, width)
    held = spread_words(held) if spread else held
    return Nvfp4Weight(held, _runs(scales), tensor_scale.repeat(num_rows), width, spread)


def stored_codes(weight: Nvfp4Weight, rows: slice = slice(None)) -> torch.Tensor:
    """Give the codes of a 4-bit weight in the order that checkpoints store.

    Args:
        weight: N rows of Kp inputs.
        rows: which rows.

    Returns:
        uint8 [rows, Kp/2], the low nibble is the even input; a view where they are held so.
    """
    return gather_words(weight.codes[rows]) if weight.spread else weight.codes[rows]


def unpack_scales(weight: Nvfp4Weight) -> torch.Tensor:
    """Put the scales of a 4-bit weight back into rows.

    Args:
        weight: N rows of Kp inputs.

    Returns:
        e4m3 [N, Kp/16]: the scale of row n and of inputs 16 i onwards at [n, i]; zero past K.
    """
    num_tiles, num_steps = weight.scale_runs.shape[:2]
    rows = weight.scale_runs.view(torch.uint8).permute(0, 4, 2, 1, 3, 5)
    rows = rows.reshape(TILE_ROWS * num_tiles, num_steps * STEP // NVFP4_GROUP)
    return rows[: num_outputs(weight)].contiguous().view(E4M3)


def fuse(weights: Sequence[Weight]) -> Weight:
    """Join weights of one format along N, so that one product reads them all.

    Args:
        weights: one or more, all of one format, one K and one device. The rows of a member that
            another follows are a multiple of 128 in the block format and of 16 in the 4-bit one.

    Returns:
        A weight whose rows are the members' rows in order, each with its own scales; a copy, or
        the member itself where there is only one.

    Raises:
        ValueError: no members, formats, K or devices disagree, or a member's rows end inside a
            block of scales.
    """
    if not weights:
        raise ValueError("fuse: got no weights, expected one or more; pass the members in order")
    first = weights[0]
    for index, weight in enumerate(weights):
        _refuse_stranger(index, weight, first)
        if index + 1 < len(weights):
            _refuse_ragged(index, weight)
    Axes("fuse").same_device(**{f"weights[{i}]": one.codes for i, one in enumerate(weights)})
    if len(weights) == 1:
        return first
    # Every tensor of every format has its rows, blocks of rows or tiles of rows along axis 0.
    joined = [_join(parts) for parts in zip(*(one.tensors() for one in weights), strict=True)]
    return replace(first, **dict(zip(_tensor_fields(first), joined, strict=True)))


def _tensor_fields(weight: Weight) -> list[str]:
    values = {one.name: getattr(weight, one.name) for one in fields(weight)}
    return [name for name, value in values.items() if isinstance(value, torch.Tensor)]


def _join(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    if parts[0].dtype == E4M3:
        return torch.cat([part.view(torch.uint8) for part in parts]).view(E4M3)
    return torch.cat(list(parts))


def _runs(scales: torch.Tensor) -> torch.Tensor:
    """Scales e4m3 [N, K/16] in the order of `Nvfp4Weight.scale_runs`."""
    num_rows, num_groups = scales.shape
    num_tiles, num_steps = _ceil(num_rows, TILE_ROWS), _ceil(num_groups * NVFP4_GROUP, STEP)
    shape = (TILE_ROWS * num_tiles, num_steps * STEP // NVFP4_GROUP)
    rows = scales.view(torch.uint8)
    rows = rows if rows.shape == shape else _copied(rows, shape)
    split = rows.reshape(num_tiles, 2, 8, num_steps, 4, 2)
    return split.permute(0, 3, 2, 4, 1, 5).contiguous().view(E4M3)


def _held(codes: torch.Tensor, K: int) -> torch.Tensor:
    """The codes themselves where a kernel can read them as they are, else a padded copy."""
    if K % STEP == 0 and codes.is_contiguous() and codes.data_ptr() % ALIGNMENT == 0:
        return codes
    num_rows, width = codes.shape
    return _copied(codes, (num_rows, _ceil(K, STEP) * STEP * width // K))


def _copied(tensor: torch.Tensor, shape: tuple[int, int]) -> torch.Tensor:
    out = torch.zeros(shape, dtype=tensor.dtype, device=tensor.device)
    out[: tensor.shape[0], : tensor.shape[1]] = tensor
    return out


def _ceil(size: int, part: int) -> int:
    return -(-size // part)


def _refuse_stranger(index: int, weight: Weight, first: Weight) -> None:
    got, want = ((format_name(one), one.K) for one in (weight, first))
    if got != want:
        raise ValueError(
            f"fuse: weights[{index}] is {got[0]} with K = {got[1]}, expected {want[0]} with "
            f"K = {want[1]} like weights[0]; keep them apart"
        )


def _refuse_ragged(index: int, weight: Weight) -> None:
    multiple = MEMBER_ROWS.get(type(weight), 1)
    if num_outputs(weight) % multiple:
        raise ValueError(
            f"fuse: weights[{index}] has N = {num_outputs(weight)}, expected a multiple of "
            f"{multiple}, where the next {format_name(weight)} member's scales can begin; "
            "keep them apart"
        )
