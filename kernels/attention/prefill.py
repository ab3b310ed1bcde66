"""Attend from many rows through the library's fused kernel.

A prefill chunk is compute-bound, and none of our kernels competes with the library's here. It is
flash attention for texts of any length, which reads the lengths from device memory: so one captured
graph serves chunks of many lengths at any place of a text. Never cuDNN, which plans for every new
pair of T and S, 53 ms on the host.
"""

import torch
from torch.backends import cuda

from kernels.attention.reference import attention_reference
from kernels.common.expect import Axes

BF16, INT32 = (torch.bfloat16,), (torch.int32,)


def attention_prefill(
    q: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    rows: torch.Tensor,
    positions: torch.Tensor,
) -> torch.Tensor:
    """Attend from the last n of s positions to all positions up to their own.

    Query head h reads key/value head h // (H / G).

    Args:
        q: bf16 [T, H, D], normed and rotated; stride 1 along D. The first n rows are text.
        keys: bf16 [G, S, D], normed and rotated, S >= s; any head and position stride: a layer's
            store serves as it is.
        values: bf16 [G, S, D].
        rows: int32 [2], 0 and n <= T.
        positions: int32 [2], 0 and s >= n.

    Returns:
        bf16 [T, H, D]; rows from n on are not written.

    Raises:
        TypeError: a dtype is not one of those above.
        ValueError: shapes, strides or devices disagree, or H is no multiple of G.
        RuntimeError: the GPU's library has no fused kernel for these widths.

    Numerics:
        On a GPU flash attention of the library: scores and online softmax in fp32, weights rounded
        to bf16 before they meet the values, sums in fp32, one rounding of the output. The order of
        its sums is the library's and may change with its version: a prefill cut elsewhere may
        differ in the last bits, which is why prefix reuse keeps whole chunks. T and S, beyond n and
        s, change nothing. On a CPU `attention_reference`, whose roundings are the model's.

    Side effects:
        Launches on the current stream; safe in graph capture.

    Source:
        Dao, "FlashAttention-2", 2023.
    """
    axes = Axes("attention_prefill")
    axes.tensor("q", q, ("T", "H", "D"), BF16, "pass rotated queries as bf16 heads")
    axes.tensor("keys", keys, ("G", "S", "D"), BF16, "pass the keys of one layer")
    axes.tensor("values", values, ("G", "S", "D"), BF16, "pass the values of one layer")
    axes.tensor("rows", rows, ("2",), INT32, "pass 0 and the number of rows")
    axes.tensor("positions", positions, ("2",), INT32, "pass 0 and the number of positions")
    axes.same_device(q=q, keys=keys, values=values, rows=rows, positions=positions)
    if axes["H"] % axes["G"]:
        raise ValueError(
            f"attention_prefill: H = {axes['H']} query heads cannot share G = {axes['G']} "
            "key/value heads evenly; pass as many query heads for every key/value head"
        )
    return (
        _fused(q, keys, values, rows, positions)
        if q.is_cuda
        else _on_cpu(q, keys, values, int(rows[1]), int(positions[1]))
    )


def _on_cpu(
    q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, num_rows: int, num_positions: int
) -> torch.Tensor:
    if not num_rows <= num_positions <= keys.shape[1]:
        raise ValueError(
            f"attention_prefill: {num_positions} positions of a store of {keys.shape[1]} must hold "
            f"the {num_rows} rows themselves; append the rows' keys and values first"
        )
    out = torch.empty_like(q)
    held = slice(None), slice(num_positions)
    out[:num_rows] = attention_reference(q[:num_rows], keys[held], values[held])
    return out


def _fused(
    q: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    rows: torch.Tensor,
    positions: torch.Tensor,
) -> torch.Tensor:
    """Call flash attention over one text of a length that the device knows, lower-right causal."""
    call = cuda.SDPAParams(
        q.transpose(0, 1)[None], keys[None], values[None], None, 0.0, False, True
    )
    if not cuda.can_use_flash_attention(call, debug=False):
        raise RuntimeError(
            f"attention_prefill: flash attention of torch {torch.__version__} takes no heads of "
            f"D = {q.shape[-1]} on {torch.cuda.get_device_name(q.device)}, and every other way "
            "writes all scores to memory; use a GPU of compute capability 8.0 or later"
        )
    # the operator behind scaled_dot_product_attention, which itself takes no lengths
    mixed, *_ = torch.ops.aten._flash_attention_forward(  # noqa: SLF001
        q, keys.transpose(0, 1), values.transpose(0, 1), rows, positions, q.shape[0],
        keys.shape[1], 0.0, True, False,  # no dropout, causal, no debug mask
    )  # fmt: skip
    return mixed
