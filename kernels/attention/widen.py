"""Offer the widening of keys and values for a prefill: check arguments, choose a build, launch."""

import torch

from kernels.attention.kv_codes import E4M3, KvScales, expect_scales, widened
from kernels.common import interpreter
from kernels.common.expect import Axes
from kernels.common.launch_options import launch_options

BF16, INT32 = (torch.bfloat16,), (torch.int32,)

SLOTS = 32
"""Slots of a program: 8,192 codes, 64 a thread of 4 warps."""


def attention_widen(
    keys: torch.Tensor,
    values: torch.Tensor,
    scales: KvScales,
    positions: torch.Tensor,
    out: torch.Tensor,
) -> None:
    """Write what the codes of a layer stand for, up to a number of positions.

    Args:
        keys: e4m3 [G, S, D] of one layer, slots contiguous, any head stride.
        values: e4m3 [G, S, D], as keys.
        scales: of the layer.
        positions: int32 [2], 0 and the s <= S slots to widen: what `attention_prefill` takes.
        out: bf16 [2, G, S, D], contiguous: keys, then values; slots from s on keep what they hold.

    Raises:
        TypeError: a dtype is not one of those above.
        ValueError: shapes, strides or devices disagree.

    Numerics:
        Exact: code times scale is a number of BF16.

    Side effects:
        One launch on the current stream; safe in graph capture.
    """
    name = "attention_widen"
    axes = Axes(name)
    axes.tensor("keys", keys, ("G", "S", "D"), (E4M3,), "pass the codes of one layer's keys")
    axes.tensor("values", values, ("G", "S", "D"), (E4M3,), "pass the codes of its values")
    axes.tensor("positions", positions, ("2",), INT32, "pass 0 and the number of positions")
    axes.tensor("out", out, ("2", "G", "S", "D"), BF16, "allocate bf16 [2, G, S, D]")
    axes.same_device(keys=keys, values=values, positions=positions, out=out)
    expect_scales(name, keys, values, scales)
    if not out.is_contiguous():
        raise ValueError(
            f"{name}: out must be contiguous, got strides {list(out.stride())} for "
            f"{list(out.shape)}; allocate it anew"
        )
    for kind, store in (("keys", keys), ("values", values)):
        if not store[0].is_contiguous():
            raise ValueError(
                f"{name}: slots of {kind} must lie side by side, got strides "
                f"{list(store.stride())} for {list(store.shape)}; pass the store itself"
            )
    if not interpreter.on_kernels(keys):
        held = slice(int(positions[1]))
        out[0, :, held], out[1, :, held] = widened(keys[:, held], values[:, held], scales)
        return
    from kernels.attention.widen_kernel import widen_kernel

    widen_kernel[(-(-axes["S"] // SLOTS), axes["G"], 2)](
        keys.view(torch.uint8), values.view(torch.uint8), scales.keys, scales.values, positions,
        out, axes["S"], keys.stride(0), values.stride(0), D=axes["D"], SLOTS=SLOTS,
        **launch_options(4),
    )  # fmt: skip
