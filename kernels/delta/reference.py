"""State the gated delta rule in plain torch: gates, one token, and chunks of 64.

Heads: H value heads share G key heads, value head h reads key head h // (H / G). The state is fp32
[H, D, E]: D the width of a key, E of a value. Per head and token, with S the state,

    S <- exp(g) S;  S <- S + k (beta (v - S' k))';  o = S' q / sqrt(D)

where ' transposes, and q and k are scaled to length one before. Bit-equal on a CPU to
`torch_recurrent_gated_delta_rule` and `torch_chunk_gated_delta_rule` of transformers 5.24.
"""

import torch
from torch.nn import functional

CHUNK = 64
"""Tokens of a chunk: a call may be cut at its multiples without changing a bit."""

LENGTH_EPS = 1e-6
"""Added to the sum of squares, inside the root, when q and k are scaled to length one."""


def gates_reference(
    a: torch.Tensor, b: torch.Tensor, decay_rate: torch.Tensor, dt_bias: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute how much each head forgets and how much it writes.

    Args:
        a: bf16 [T, H].
        b: bf16 [T, H].
        decay_rate: fp32 [H], -exp(A_log): below zero.
        dt_bias: fp32 [H].

    Returns:
        g fp32 [T, H], the logarithm of the decay, at most zero; beta bf16 [T, H], 0 to 1.

    Numerics:
        beta is rounded to bf16, g stays in fp32; softplus is linear above 20.
    """
    return decay_rate * functional.softplus(a.float() + dt_bias), b.sigmoid()


def unit_length(x: torch.Tensor) -> torch.Tensor:
    """Scale rows to length one, by the sum of squares: fp32 [..., D] -> fp32 [..., D]."""
    return x * torch.rsqrt((x * x).sum(-1, keepdim=True) + LENGTH_EPS)


def delta_step_reference(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    state: torch.Tensor,
) -> torch.Tensor:
    """Advance the state by one token.

    Args:
        q: bf16 [G, D], raw.
        k: bf16 [G, D], raw.
        v: bf16 [H, E].
        g: fp32 [H], log decay.
        beta: bf16 [H].
        state: fp32 [H, D, E], written in place.

    Returns:
        bf16 [H, E].

    Numerics:
        fp32 throughout, products and sums rounded apart; one rounding of the output.
    """
    per_key = v.shape[0] // q.shape[0]
    both = unit_length(torch.stack((q, k)).float())
    if per_key > 1:
        both = both.repeat_interleave(per_key, 1)
    q32, k32 = both[0] / (q.shape[-1] ** 0.5), both[1, :, :, None]
    state *= g.exp()[:, None, None]
    seen = (state * k32).sum(-2)
    change = (v.float() - seen) * beta.float()[:, None]
    state += k32 * change[:, None, :]
    return (state * q32[:, :, None]).sum(-2).to(v.dtype)


def delta_chunk_reference(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    state: torch.Tensor,
) -> torch.Tensor:
    """Advance the state by any number of tokens, 64 at a time.

    Inside a chunk the tokens' writes are found together, by a unit lower triangular solve; the
    state is touched once a chunk.

    Args:
        q: bf16 [T, G, D], raw.
        k: bf16 [T, G, D], raw.
        v: bf16 [T, H, E].
        g: fp32 [T, H], log decay.
        beta: bf16 [T, H].
        state: fp32 [H, D, E], written in place.

    Returns:
        bf16 [T, H, E].

    Numerics:
        fp32 throughout, library products; one rounding of the output. Differs from single steps in
        the order of its sums. A call cut at a multiple of 64 gives the bits of the whole call.

    Source:
        Yang, Kautz, Hatamizadeh, "Gated Delta Networks", 2024, section 3.3.
    """
    num_rows, heads = v.shape[:2]
    per_key = heads // q.shape[1]
    if per_key > 1:
        q, k = q.repeat_interleave(per_key, 1), k.repeat_interleave(per_key, 1)
    pad = -num_rows % CHUNK
    q32 = unit_length(_by_head(q)) * q.shape[-1] ** -0.5
    k32 = unit_length(_by_head(k))
    q32, k32, v32 = (functional.pad(x, (0, 0, 0, pad)) for x in (q32, k32, _by_head(v)))
    beta32, g32 = (functional.pad(_by_head(x), (0, pad)) for x in (beta, g))
    kb, vb = k32 * beta32.unsqueeze(-1), v32 * beta32.unsqueeze(-1)
    q32, k32, kb, vb = (x.unflatten(1, (-1, CHUNK)) for x in (q32, k32, kb, vb))
    faded = g32.unflatten(1, (-1, CHUNK)).cumsum(-1)  # [H, n, 64]

    # what token i still sees of token j <= i; masked before exp, where later tokens overflow
    later = torch.ones(CHUNK, CHUNK, dtype=torch.bool, device=v.device).triu(1)
    decay = (faded.unsqueeze(-1) - faded.unsqueeze(-2)).masked_fill(later, float("-inf")).exp()
    system = (kb @ k32.transpose(-1, -2)) * decay
    inside = (q32 @ k32.transpose(-1, -2)) * decay
    kb = kb * faded.exp().unsqueeze(-1)
    solve = torch.linalg.solve_triangular
    fresh = solve(system, vb, upper=False, unitriangular=True)
    known = solve(system, kb, upper=False, unitriangular=True)

    q32 = q32 * faded.exp().unsqueeze(-1)
    k32 = k32 * (faded[..., -1:] - faded).exp().unsqueeze(-1)
    fade = faded[..., -1].exp()[..., None, None]
    out = torch.empty_like(fresh)
    for i in range(fresh.shape[1]):
        written = fresh[:, i] - known[:, i] @ state
        out[:, i] = q32[:, i] @ state + inside[:, i] @ written
        state.copy_(state * fade[:, i] + k32[:, i].transpose(-1, -2) @ written)
    out = out.flatten(1, 2)[:, :num_rows].transpose(0, 1)
    return out.to(v.dtype, memory_format=torch.contiguous_format)


def _by_head(x: torch.Tensor) -> torch.Tensor:
    """Bring heads outermost and widen: [T, H, ...] -> fp32 [H, T, ...], contiguous."""
    return x.transpose(0, 1).to(torch.float32, memory_format=torch.contiguous_format)
