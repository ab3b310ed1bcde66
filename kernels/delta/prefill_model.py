"""Repeat the two kernels of the chunked form in torch: their splits, their blocks, their order.

All but the order of a product's own sums, which is the tensor core's, and the last bits of exp and
rsqrt, which are the GPU's: so the kernels are near the model and do not have its bits
(`prefill_laws.py` says how near). On a CPU it is what the fp64 truth is held against.
"""

import torch
from torch.nn import functional

from kernels.common.case import Tensors
from kernels.delta.reference import CHUNK, LENGTH_EPS

SIDE = 16
"""Tokens of a block of the triangular system."""

BLOCKS = CHUNK // SIDE


def model_prefill(inputs: Tensors) -> Tensors:
    """Compute out and state_out of a case's inputs."""
    num_rows, heads = inputs["v"].shape[:2]
    shared = heads // inputs["q"].shape[1]
    q, k = (_chunks(inputs[name].repeat_interleave(shared, 1)) for name in ("q", "k"))
    v, g, beta = (_chunks(inputs[name]) for name in ("v", "g", "beta"))
    write, mix, of_keys, of_queries, fade = prepare(q, k, g, beta)
    state, outs = inputs["state"], list[torch.Tensor]()
    for n in range(q.shape[1]):
        state_head, state_tail = parts(state)
        met = k[:, n] @ state_tail + k[:, n] @ state_head
        rest = v[:, n] - of_keys[:, n, :, None] * met
        asked = of_queries[:, n, :, None] * (q[:, n] @ state_tail + q[:, n] @ state_head)
        outs.append(asked + product(mix[:, n], rest))
        wrote_head, wrote_tail = parts(product(write[:, n], rest))
        across = k[:, n].mT
        state = fade[:, n, None, None] * state + across @ wrote_tail + across @ wrote_head
    out = torch.cat(outs, 1)[:, :num_rows].transpose(0, 1).bfloat16()
    return {"out": out, "state_out": state}


def prepare(
    q: torch.Tensor, k: torch.Tensor, g: torch.Tensor, beta: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Find what the walk needs of every chunk, as prefill_chunk.cu does.

    Args:
        q: fp32 [H, n, 64, D], raw.
        k: fp32 [H, n, 64, D], raw.
        g: fp32 [H, n, 64].
        beta: fp32 [H, n, 64].

    Returns:
        write and mix, fp32 [H, n, 64, 64]; factors of K S and of Q S, [H, n, 64]; of S, [H, n].
    """
    k_scale = (k.square().sum(-1) + LENGTH_EPS).rsqrt()
    q_scale = (q.square().sum(-1) + LENGTH_EPS).rsqrt() * q.shape[-1] ** -0.5
    faded = running_sum(g)
    last = faded[..., -1:]
    # chosen before exp: towards later tokens the exponent is positive and may overflow
    seen = torch.ones(CHUNK, CHUNK, dtype=torch.bool).tril()
    decay = (faded[..., :, None] - faded[..., None, :]).masked_fill(~seen, -torch.inf).exp()
    lower = k @ k.mT * (-beta * k_scale)[..., :, None] * decay * k_scale[..., None, :]
    inverse = invert(lower.tril(-1))
    write = inverse * (k_scale * (last - faded).exp())[..., :, None] * beta[..., None, :]
    asked = q @ k.mT * q_scale[..., :, None] * decay * k_scale[..., None, :]
    mix = product(asked, inverse) * beta[..., None, :]
    return write, mix, faded.exp() * k_scale, faded.exp() * q_scale, last[..., 0].exp()


def invert(lower: torch.Tensor) -> torch.Tensor:
    """Invert I - lower by forward substitution in blocks: fp32 [..., 64, 64], strictly lower.

    Blocks on the diagonal go column by column. Below, block (i, j) of the inverse is that of the
    diagonal in row i times what the blocks above it in column j leave.
    """
    at = [slice(SIDE * i, SIDE * (i + 1)) for i in range(BLOCKS)]
    diagonal = [_invert_block(lower[..., own, own]) for own in at]
    inverse = torch.zeros_like(lower)
    for j in range(BLOCKS):
        inverse[..., at[j], at[j]] = diagonal[j]
        for i in range(j + 1, BLOCKS):
            above = slice(SIDE * j, SIDE * i)
            met = product(lower[..., at[i], above], inverse[..., above, at[j]])
            inverse[..., at[i], at[j]] = product(diagonal[i], met)
    return inverse


def _invert_block(lower: torch.Tensor) -> torch.Tensor:
    inverse = torch.eye(SIDE).expand_as(lower).clone()
    for j in range(SIDE - 1):
        # row j is final: its multiples join the rows below, where alone lower is not zero
        inverse = inverse + lower[..., :, j : j + 1] * inverse[..., j : j + 1, :]
    return inverse


def running_sum(g: torch.Tensor) -> torch.Tensor:
    """Add up [..., 64] by pairs, then in a scan of the pairs that doubles its step."""
    first, second = g[..., 0::2], g[..., 1::2]
    sums, step = first + second, 1
    while step < sums.shape[-1]:
        sums = torch.cat((sums[..., :step], sums[..., step:] + sums[..., :-step]), -1)
        step *= 2
    before = functional.pad(sums[..., :-1], (1, 0))
    return torch.stack((before + first, sums), -1).flatten(-2)


def product(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Multiply fp32 matrices by three products of bf16 parts: about 17 bits."""
    x_head, x_tail = parts(x)
    y_head, y_tail = parts(y)
    return (x_head @ y_tail + x_tail @ y_head) + x_head @ y_head


def parts(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Split fp32 into two numbers of bf16, in fp32, whose sum is within 2^-18 of it."""
    head = x.bfloat16().float()
    return head, (x - head).bfloat16().float()


def _chunks(x: torch.Tensor) -> torch.Tensor:
    """Bring heads outermost, widen, and fill up the last chunk: [T, H, ...] -> [H, n, 64, ...]."""
    x = x.float().transpose(0, 1)
    missing = -x.shape[1] % CHUNK
    x = functional.pad(x, (*[0, 0] * (x.dim() - 2), 0, missing))
    return x.unflatten(1, (-1, CHUNK))
