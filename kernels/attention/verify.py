"""Offer decode and verify attention: check arguments, choose the build, launch.

CUDA tensors go to verify.cu, or verify_codes.cu, and combine.cu; CPU tensors to the torch
reference, row by row.
"""

import torch

from kernels.attention import verify_launch
from kernels.attention.kv_codes import KV_DTYPES, KvScales, expect_scales, widened
from kernels.attention.reference import attention_reference, gate_reference
from kernels.attention.verify_launch import scratch_elements
from kernels.attention.verify_tile import HEAD_DIM, VerifyTile
from kernels.common.expect import Axes
from kernels.common.operands import Operands
from kernels.common.round import MAX_ROWS

BF16 = (torch.bfloat16,)
INT32 = (torch.int32,)


def attention_verify(
    q: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    gate: torch.Tensor,
    start: torch.Tensor,
    depths: torch.Tensor,
    paths: torch.Tensor,
    *,
    max_context: int,
    scales: KvScales | None = None,
    out: torch.Tensor | None = None,
    scratch: torch.Tensor | None = None,
    overlap: bool = False,
    tile: VerifyTile | None = None,
    operands: Operands | None = None,
) -> torch.Tensor:
    """Attend from every row of a verify to the committed context and its own path; gate the result.

    Row i stands at position start + depths[i]. It attends to positions below start, whose keys lie
    in slots of the same number, and to its path: position start + d lies in slot
    start + paths[i, d] for d up to depths[i]. Query head h reads KV head h // (H / G).

    Args:
        q: bf16 [T, H, 256], T from 1 to 32, normed and rotated; heads contiguous, 16-byte aligned,
            any row stride that is a multiple of 8.
        keys: bf16 or e4m3 codes [G, S, 256], S slots of one layer, normed and rotated; slots
            contiguous, 16-byte aligned, any head stride that is a multiple of 16 bytes. Slots that
            no row attends to are never read, whatever they hold.
        values: bf16 or e4m3 [G, S, 256], as keys.
        gate: bf16 [T, H, 256], any row and head strides.
        start: int32 [1] on the device: committed positions. With `overlap`, it and the committed
            keys and values were written before the kernel before this one began.
        depths: int32 [T or more] on the device.
        paths: int32 [T or more, 32] on the device, contiguous.
        max_context: upper bound of start + T: launches that many positions' chunks. Those that
            are empty cost an early return and change nothing. A row that outgrows it is NaN.
        scales: of a store of codes; None for BF16.
        out: bf16 [T, H * 256] to write into, any row stride. None allocates.
        scratch: fp32, at least `scratch_elements(T, H, max_context)`, for partial results. None
            allocates. Two calls in flight at one time need one each.
        overlap: start before the previous kernel of the stream has ended, and let the next one.
        tile: launch choice; None for the default. Changes no bit.
        operands: written with the result as the product behind takes it; None where it does not.

    Returns:
        bf16 [T, H * 256]: round(attention) * round(sigmoid(gate)), rounded; `out` where given.

    Raises:
        TypeError: a dtype is not one of those above.
        ValueError: shapes, strides, alignment or devices disagree, or the tile does not fit.

    Numerics:
        |q k| within fp32 (2^127). CUDA: scores in fp32 by mma.m16n8k16, never rounded; online
        softmax in tiles of 64 positions, weights 2^(score - top) rounded to bf16, both for the
        values and for their own sum; fp32 sums, those of values rounded once a chunk, to fp16 with
        a power of two for each 128 columns (partials.cuh); chunks merged in a fixed order, in fp32
        (combine.cu). The bits of a row follow from its path alone: not from T, the other rows, the
        tile or max_context. Codes are widened to bf16, exactly; the scale of the keys, a power of
        two, multiplies the fp32 factor of the scores, that of the values the fp32 sums of a chunk:
        exact both, so the bits are those of the widened values in BF16 (`kv_codes.widened`),
        columns of the scores in the order of `kv_codes.COLUMN_ORDER`. CPU: `attention_reference`
        for each row alone over widened keys and values, with its rounding points.

    Side effects:
        Two launches on the current stream; safe in graph capture when `out` and `scratch` are
        given and a first call has compiled and loaded the kernels.

    Source:
        Milakov and Gimelshein, arXiv 1805.02867 (online softmax); Dao et al., flash decoding;
        `Qwen3_5Attention`, transformers 5.24.
    """
    name = "attention_verify"
    axes = Axes(name)
    axes.tensor("q", q, ("T", "H", "D"), BF16, "pass the queries of attention_prep")
    axes.tensor("keys", keys, ("G", "S", "D"), KV_DTYPES, "pass one layer's keys")
    axes.tensor("values", values, ("G", "S", "D"), KV_DTYPES, "pass one layer's values")
    axes.tensor("gate", gate, ("T", "H", "D"), BF16, "pass the gate half of the q product")
    axes.tensor("start", start, ("1",), INT32, "pass the engine's device scalar")
    if out is None:
        out = q.new_empty((axes["T"], axes["H"] * axes["D"]))
    axes.tensor("out", out, ("T", "HD"), BF16, "allocate it as bf16 [T, H * D]")
    axes.same_device(
        q=q, keys=keys, values=values, gate=gate, start=start, depths=depths, paths=paths, out=out
    )
    expect_scales(name, keys, values, scales)
    _expect_tables(depths, paths, axes["T"])
    _expect_heads(q, keys, values, out)
    if operands is not None:
        operands.expect(name, out)
    if not q.is_cuda:
        _on_cpu(q, keys, values, scales, gate, start, depths, paths, out)
        if operands is not None:
            operands.fill(out)
        return out
    if axes["T"] == 0:
        return out
    needed = scratch_elements(axes["T"], axes["H"], max_context)
    scratch = torch.empty(needed, device=q.device) if scratch is None else scratch
    if scratch.dtype != torch.float32 or scratch.numel() < needed or scratch.device != q.device:
        raise ValueError(
            f"{name}: scratch must be fp32 [{needed}] on {q.device} for T = {axes['T']} and "
            f"max_context = {max_context}, got {scratch.dtype} [{scratch.numel()}] on "
            f"{scratch.device}; allocate scratch_elements(T, H, max_context)"
        )
    axes.aligned(16, scratch=scratch)
    verify_launch.launch(
        q, keys, values, gate, start, depths, paths, out, scratch,
        scales=scales, max_context=max_context, tile=tile, overlap=overlap, operands=operands,
    )  # fmt: skip
    return out


def _expect_tables(depths: torch.Tensor, paths: torch.Tensor, rows: int) -> None:
    good = (
        depths.dtype == paths.dtype == torch.int32
        and depths.dim() == 1
        and depths.shape[0] >= rows
        and paths.dim() == 2
        and paths.shape[0] >= rows
        and paths.shape[1] == MAX_ROWS
        and depths.is_contiguous()
        and paths.is_contiguous()
    )
    if not good:
        raise ValueError(
            f"attention_verify: depths and paths must be int32 [T] and [T, {MAX_ROWS}] with "
            f"T >= {rows}, contiguous, got {depths.dtype} {list(depths.shape)} and {paths.dtype} "
            f"{list(paths.shape)}; pass those of TreeTables"
        )


def _expect_heads(
    q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, out: torch.Tensor
) -> None:
    rows, heads, width = q.shape
    groups = keys.shape[0]
    if rows > MAX_ROWS:
        raise ValueError(
            f"attention_verify: got T = {rows} rows, expected at most {MAX_ROWS}; "
            "call attention_prefill for more"
        )
    if heads % groups or out.shape[1] != heads * width:
        raise ValueError(
            f"attention_verify: {heads} query heads of {width} do not fit {groups} KV heads and "
            f"out {list(out.shape)}; expected a multiple of the KV heads and out [T, H * D]"
        )
    if q.is_cuda:
        _expect_readable(q, keys, values, heads // groups)


def _expect_readable(q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, share: int) -> None:
    """Check what the copy engine and the matrix unit ask of CUDA tensors."""
    if q.shape[2] != HEAD_DIM or share > 16:
        raise ValueError(
            f"attention_verify: got heads of D = {q.shape[2]} and {share} of them a KV head, the "
            f"kernel is written for D = {HEAD_DIM} and at most 16"
        )
    for name, tensor in (("q", q), ("keys", keys), ("values", values)):
        step = tensor.stride(0) * tensor.itemsize
        if tensor.data_ptr() % 16 or tensor.stride(1) != HEAD_DIM or step % 16:
            raise ValueError(
                f"attention_verify: {name} must have rows of {HEAD_DIM} side by side, 16-byte "
                f"aligned, got strides {list(tensor.stride())} at {tensor.data_ptr():#x}; "
                "pass the store itself or a contiguous copy"
            )


def _on_cpu(
    q: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    scales: KvScales | None,
    gate: torch.Tensor,
    start: torch.Tensor,
    depths: torch.Tensor,
    paths: torch.Tensor,
    out: torch.Tensor,
) -> None:
    """Compute with torch: each row in products of its own, over the keys of its path in order."""
    first = int(start)
    keys, values = widened(keys, values, scales)
    for row in range(q.shape[0]):
        own = first + paths[row, : int(depths[row]) + 1].long()
        k, v = (torch.cat((store[:, :first], store[:, own]), 1) for store in (keys, values))
        mixed = gate_reference(attention_reference(q[row : row + 1], k, v), gate[row : row + 1])
        out[row] = mixed.flatten()
