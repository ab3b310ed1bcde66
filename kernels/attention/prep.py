"""Offer the preparation of attention: check arguments, choose the build, launch.

CUDA tensors go to the Triton kernel, CPU tensors to the torch reference; in a process whose
kernels were built for Triton's interpreter (checks only) CPU tensors go to the kernel too.
"""

import torch

from kernels.attention.kv_codes import KV_DTYPES, KvScales, expect_scales, to_codes
from kernels.attention.prep_reference import prepared_heads_reference
from kernels.common import interpreter
from kernels.common.expect import Axes
from kernels.common.launch_options import launch_options
from kernels.common.round import MAX_ROWS

BF16, INT32 = (torch.bfloat16,), (torch.int32,)
WEIGHT = (torch.bfloat16, torch.float32)

MAX_VERIFY_ROWS = MAX_ROWS
"""Rows up to which a program takes one row, so that a verify fills the GPU."""

PREFILL_ROWS = 8
"""Rows of a program above that: 8 heads of 256 are 16 elements a thread of 4 warps."""


def attention_prep(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    q_norm: torch.Tensor,
    k_norm: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    start: torch.Tensor,
    depths: torch.Tensor | None,
    keys: torch.Tensor,
    values: torch.Tensor,
    *,
    out: torch.Tensor,
    eps: float,
    scales: KvScales | None = None,
    overlap: bool = False,
) -> None:
    """Normalise and rotate query and key heads, and store keys and values in their slots.

    Row i stands at position `start + depths[i]`; its key and value go to slot `start + i`.

    Args:
        q: bf16 [T, H * 2 D], rows contiguous, any row stride: per head D query values, then D gate
            values, which are left alone.
        k: bf16 [T, G * D], rows contiguous, any row stride.
        v: bf16 [T, G * D], rows contiguous, any row stride.
        q_norm: bf16 or fp32 [D]: the checkpoint's zero-centred weight.
        k_norm: bf16 or fp32 [D], of q_norm's dtype.
        cos: bf16 [positions, R], contiguous, R <= D even: row p holds the angles of position p;
            heads at a position beyond the table are written, but mean nothing.
        sin: bf16 [positions, R].
        start: int32 [1], positions held before this call.
        depths: int32 [T or more], rows on the way from row 0; None where rows follow each other.
        keys: bf16 or e4m3 codes [G, capacity, D] of one layer, positions contiguous, any head
            stride; a row whose slot lies beyond the capacity is not stored.
        values: bf16 or e4m3 [G, capacity, D], as keys.
        out: bf16 [T, H, D] to write, heads contiguous, any row stride.
        eps: added to the mean square.
        scales: of a store of codes; None for BF16.
        overlap: whether the launch may begin before the kernel before it has ended; changes no
            bit. Every kernel of the stream must then wait for the one before, as this one does.
            Start, depths and angles are read before that kernel ends: what writes them must have
            ended before the graph, or the last kernel without overlap, began.

    Raises:
        TypeError: a dtype is not one of those above.
        ValueError: shapes, strides or devices disagree.

    Numerics:
        The norm: fp32, squares summed over a fixed tree, one rounding to bf16. The rotation: both
        products and their sum each rounded to bf16. IEEE operations throughout, so the bits are
        those of `rms_norm` and `rotate_reference` on every GPU; a row's bits depend on the row and
        its position alone. Into a store of codes go the bf16 numbers that a BF16 store would get,
        rounded once more by `to_codes`.

    Side effects:
        One launch on the current stream, none for no rows; safe in graph capture.

    Source:
        `Qwen3_5Attention`, transformers 5.24.
    """
    axes = Axes("attention_prep")
    axes.tensor("out", out, ("T", "H", "D"), BF16, "allocate bf16 [T, H, D]")
    axes.tensor("keys", keys, ("G", "capacity", "D"), KV_DTYPES, "pass the keys of one layer")
    axes.tensor("values", values, ("G", "capacity", "D"), KV_DTYPES, "pass the values of one layer")
    axes.tensor("q", q, ("T", "2 H D"), BF16, "pass the query part of the fused product")
    axes.tensor("k", k, ("T", "G D"), BF16, "pass the key part of the fused product")
    axes.tensor("v", v, ("T", "G D"), BF16, "pass the value part of the fused product")
    axes.tensor("q_norm", q_norm, ("D",), WEIGHT, "pass the norm weight of a query head")
    axes.tensor("k_norm", k_norm, ("D",), (q_norm.dtype,), "pass it in the dtype of q_norm")
    axes.tensor("cos", cos, ("positions", "R"), BF16, "pass the table of all positions")
    axes.tensor("sin", sin, ("positions", "R"), BF16, "pass the table of all positions")
    axes.tensor("start", start, ("1",), INT32, "pass a scalar in device memory")
    given = {} if depths is None else {"depths": depths}
    for name, tensor in given.items():
        axes.tensor(name, tensor, ("nodes",), INT32, "pass the depths of the tree")
    axes.same_device(
        q=q, k=k, v=v, q_norm=q_norm, k_norm=k_norm, cos=cos, sin=sin, start=start, keys=keys,
        values=values, out=out, **given,
    )  # fmt: skip
    expect_scales("attention_prep", keys, values, scales)
    _expect_widths(axes)
    for name, tensor in (("cos", cos), ("sin", sin), ("out[0]", out[:1]), ("keys[0]", keys[0]),
                         ("values[0]", values[0])):  # fmt: skip
        if not tensor.is_contiguous():
            raise ValueError(
                f"attention_prep: {name} must be contiguous, got strides {list(tensor.stride())} "
                f"for {list(tensor.shape)}; allocate it anew"
            )
    num_rows = axes["T"]
    if depths is not None and len(depths) < num_rows:
        raise ValueError(
            f"attention_prep: {num_rows} rows have {len(depths)} depths; pass one a row"
        )
    if not num_rows:
        return
    if not interpreter.on_kernels(q):
        _prepare_on_cpu(
            q, k, v, q_norm, k_norm, cos, sin, int(start), depths, keys, values, scales, out, eps
        )
        return
    width = axes["D"]
    if width < 16 or width & (width - 1) or axes["R"] & (axes["R"] - 1):
        raise ValueError(
            "attention_prep: the kernel takes heads of a power of two from 16 on and as many "
            f"rotated dimensions, got {width} and {axes['R']}; such a model runs on the CPU"
        )
    from kernels.attention.prep_kernel import attention_prep_kernel

    if scales is not None:
        keys, values = keys.view(torch.uint8), values.view(torch.uint8)
    rows, num_warps = (1, 1) if num_rows <= MAX_VERIFY_ROWS else (PREFILL_ROWS, 4)
    attention_prep_kernel[(-(-num_rows // rows), axes["H"] + axes["G"])](
        q, k, v, q_norm, k_norm, cos, sin, start, start if depths is None else depths,
        keys, values, q_norm if scales is None else scales.keys,
        q_norm if scales is None else scales.values, out,
        num_rows, axes["positions"], axes["capacity"],
        q.stride(0), k.stride(0), v.stride(0), keys.stride(0), values.stride(0), out.stride(0), eps,
        QUERY_HEADS=axes["H"], D=width, PAIRS=width.bit_length() - 1, HALF=axes["R"] // 2,
        ROWS=rows, HAS_DEPTHS=depths is not None, HAS_CODES=scales is not None, OVERLAP=overlap,
        **launch_options(num_warps, overlap=overlap),
    )  # fmt: skip


def _expect_widths(axes: Axes) -> None:
    heads, groups, width = axes["H"], axes["G"], axes["D"]
    if (axes["2 H D"], axes["G D"]) != (2 * heads * width, groups * width):
        raise ValueError(
            f"attention_prep: {heads} query and {groups} key heads of {width} need q of "
            f"{2 * heads * width} and k of {groups * width} columns, got {axes['2 H D']} and "
            f"{axes['G D']}; pass the parts of one layer's product"
        )
    if axes["R"] % 2 or not 2 <= axes["R"] <= width:
        raise ValueError(
            f"attention_prep: cos must have an even number of columns, 2 to {width}, got "
            f"{axes['R']}; pass the table of this model's rotation"
        )


def _prepare_on_cpu(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    q_norm: torch.Tensor,
    k_norm: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    start: int,
    depths: torch.Tensor | None,
    keys: torch.Tensor,
    values: torch.Tensor,
    scales: KvScales | None,
    out: torch.Tensor,
    eps: float,
) -> None:
    num_rows, heads, width = out.shape
    depths = torch.arange(num_rows) if depths is None else depths[:num_rows]
    positions = (start + depths.long()).clamp(max=len(cos) - 1)
    angles = cos[positions], sin[positions]
    query = q.reshape(num_rows, heads, 2 * width)[..., :width]
    out.copy_(prepared_heads_reference(query, q_norm, *angles, eps))
    stored = slice(start, min(start + num_rows, keys.shape[1]))
    shape = (num_rows, keys.shape[0], width)
    key = prepared_heads_reference(k.reshape(shape), k_norm, *angles, eps)
    value = v.reshape(shape)
    if scales is not None:
        key, value = to_codes(key, scales.keys[:, None]), to_codes(value, scales.values[:, None])
    for store, rows in ((keys, key), (values, value)):
        store[:, stored] = rows[: stored.stop - start].transpose(0, 1)
