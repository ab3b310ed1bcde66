"""Attend from many rows through the library's fused kernel.

A prefill chunk is compute-bound, and none of our kernels competes with the library's here. What
matters is to stay on the fused one: a mask handed over as a tensor, or heads that it cannot group,
send the call to one that writes all scores to memory. It is flash attention for every chunk, never
cuDNN, which torch would choose where T = S: cuDNN plans for every new pair of T and S, 53 ms on the
host, and a prompt has any length.
"""

import torch
from torch.backends import cuda
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from kernels.attention.reference import attention_reference
from kernels.common.expect import Axes

BF16 = (torch.bfloat16,)


def attention_prefill(
    q: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    *,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Attend from the last T of S positions to all positions up to their own.

    Query head h reads key/value head h // (H / G).

    Args:
        q: bf16 [T, H, D], normed and rotated; stride 1 along D.
        keys: bf16 [G, S, D], normed and rotated, S >= T; any head and position stride: the first
            S positions of a layer's store serve as they are.
        values: bf16 [G, S, D].
        out: bf16 [T, H, D] to write into. None returns the library's own tensor, which saves a
            copy of T * H * D elements.

    Returns:
        bf16 [T, H, D]; `out` where it was given.

    Raises:
        TypeError: a dtype is not bf16.
        ValueError: shapes, strides or devices disagree, there are fewer positions than rows, or H
            is no multiple of G.
        RuntimeError: the GPU's library has no fused kernel for these widths.

    Numerics:
        On a GPU flash attention of the library: scores and online softmax in fp32, weights rounded
        to bf16 before they meet the values, sums in fp32, one rounding of the output. The order of
        its sums is the library's and may change with its version and with T and S: a prefill cut
        elsewhere may differ in the last bits, which is why prefix reuse keeps whole chunks. On a
        CPU `attention_reference`, whose roundings are the model's.

    Source:
        Dao, "FlashAttention-2", 2023.
    """
    axes = Axes("attention_prefill")
    axes.tensor("q", q, ("T", "H", "D"), BF16, "pass rotated queries as bf16 heads")
    axes.tensor("keys", keys, ("G", "S", "D"), BF16, "pass the first S positions of the store")
    axes.tensor("values", values, ("G", "S", "D"), BF16, "pass the first S positions of the store")
    if out is not None:
        axes.tensor("out", out, ("T", "H", "D"), BF16, "allocate it like q")
    axes.same_device(q=q, keys=keys, values=values, out=q if out is None else out)
    _check_sizes(axes)
    mixed = _fused(q, keys, values) if q.is_cuda else attention_reference(q, keys, values)
    return mixed if out is None else out.copy_(mixed)


def _check_sizes(axes: Axes) -> None:
    if axes["S"] < axes["T"]:
        raise ValueError(
            f"attention_prefill: the store must hold the T = {axes['T']} rows themselves, got "
            f"S = {axes['S']} positions; append the rows' keys and values first"
        )
    if axes["H"] % axes["G"]:
        raise ValueError(
            f"attention_prefill: H = {axes['H']} query heads cannot share G = {axes['G']} "
            "key/value heads evenly; pass as many query heads for every key/value head"
        )


def _fused(q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Call flash attention with grouped heads and a causal rule that is no tensor."""
    query, keys, values = q.transpose(0, 1)[None], keys[None], values[None]
    call = cuda.SDPAParams(query, keys, values, None, 0.0, False, True)
    if not cuda.can_use_flash_attention(call, debug=False):
        raise RuntimeError(
            f"attention_prefill: flash attention of torch {torch.__version__} takes no heads of "
            f"D = {q.shape[-1]} on {torch.cuda.get_device_name(q.device)}, and every other way "
            "writes all scores to memory; use a GPU of compute capability 8.0 or later"
        )
    # loads torch's compiler, and Triton with it: not for those who only import this
    from torch.nn.attention.bias import causal_lower_right

    rule = causal_lower_right(q.shape[0], keys.shape[2])
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        mixed = functional.scaled_dot_product_attention(
            query, keys, values, attn_mask=rule, enable_gqa=True
        )
    return mixed[0].transpose(0, 1)
