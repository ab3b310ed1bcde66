"""The demo's network in training form: pure functions over a dictionary of tensors.

Names are those of the checkpoint without `model.language_model.`; the mathematics is that of
transformers' `Qwen3_5ForCausalLM`, with the gated delta rule in chunks of 64. All sequences start
from an empty state and are right-padded to a multiple of 64.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

import torch
from torch.nn import functional

Weights = dict[str, torch.Tensor]
CHUNK = 64


@dataclass(frozen=True)
class Shape:
    """Sizes of the network; every projection's dimensions are multiples of 128."""

    vocab: int = 6144
    hidden: int = 256
    layers: int = 12
    interval: int = 4
    mlp: int = 768
    heads: int = 6
    head_dim: int = 256
    rotary: int = 64
    theta: float = 1e7
    value_heads: int = 3
    delta_dim: int = 128
    conv: int = 4

    def is_full(self, layer: int) -> bool:
        """True when the layer is full attention (every `interval`-th)."""
        return (layer + 1) % self.interval == 0

    def as_dict(self) -> dict[str, float]:
        """Returns the sizes for a JSON file."""
        return asdict(self)


def _attention_shapes(s: Shape) -> dict[str, tuple[int, ...]]:
    """Tensor shapes of one full-attention mixer with one key-value head."""
    return {
        "self_attn.q_proj.weight": (2 * s.heads * s.head_dim, s.hidden),
        "self_attn.k_proj.weight": (s.head_dim, s.hidden),
        "self_attn.v_proj.weight": (s.head_dim, s.hidden),
        "self_attn.o_proj.weight": (s.hidden, s.heads * s.head_dim),
        "self_attn.q_norm.weight": (s.head_dim,),
        "self_attn.k_norm.weight": (s.head_dim,),
    }


def _delta_shapes(s: Shape) -> dict[str, tuple[int, ...]]:
    """Tensor shapes of one gated-delta mixer with one key head."""
    value = s.value_heads * s.delta_dim
    mixed = 2 * s.delta_dim + value
    return {
        "linear_attn.in_proj_qkv.weight": (mixed, s.hidden),
        "linear_attn.in_proj_z.weight": (value, s.hidden),
        "linear_attn.in_proj_a.weight": (s.value_heads, s.hidden),
        "linear_attn.in_proj_b.weight": (s.value_heads, s.hidden),
        "linear_attn.conv1d.weight": (mixed, 1, s.conv),
        "linear_attn.A_log": (s.value_heads,),
        "linear_attn.dt_bias": (s.value_heads,),
        "linear_attn.norm.weight": (s.delta_dim,),
        "linear_attn.out_proj.weight": (s.hidden, value),
    }


def tensor_shapes(s: Shape) -> dict[str, tuple[int, ...]]:
    """Returns every tensor's shape by name: trunk, embedding, head and the 15 of the MTP layer."""
    common = {
        "input_layernorm.weight": (s.hidden,),
        "post_attention_layernorm.weight": (s.hidden,),
        "mlp.gate_proj.weight": (s.mlp, s.hidden),
        "mlp.up_proj.weight": (s.mlp, s.hidden),
        "mlp.down_proj.weight": (s.hidden, s.mlp),
    }
    out: dict[str, tuple[int, ...]] = {
        "embed_tokens.weight": (s.vocab, s.hidden),
        "norm.weight": (s.hidden,),
        "lm_head.weight": (s.vocab, s.hidden),
        "mtp.fc.weight": (s.hidden, 2 * s.hidden),
        "mtp.pre_fc_norm_embedding.weight": (s.hidden,),
        "mtp.pre_fc_norm_hidden.weight": (s.hidden,),
        "mtp.norm.weight": (s.hidden,),
    }
    for i in range(s.layers):
        mixer = _attention_shapes(s) if s.is_full(i) else _delta_shapes(s)
        out |= {f"layers.{i}.{n}": shape for n, shape in (common | mixer).items()}
    return out | {f"mtp.layers.0.{n}": v for n, v in (common | _attention_shapes(s)).items()}


def initial_weights(s: Shape, seed: int = 0) -> Weights:
    """Returns fresh fp32 weights; what writes into the residual stream starts at zero."""
    gen = torch.Generator().manual_seed(seed)
    out = {}
    for name, shape in tensor_shapes(s).items():
        if name.endswith(("o_proj.weight", "out_proj.weight", "down_proj.weight")):
            out[name] = torch.zeros(shape)
        elif name.endswith("A_log"):
            out[name] = torch.empty(shape).uniform_(1, 8, generator=gen).log()
        elif name.endswith("dt_bias"):
            step = torch.empty(shape).uniform_(math.log(1e-3), math.log(0.1), generator=gen).exp()
            out[name] = step + torch.log(-torch.expm1(-step))
        elif name.endswith("conv1d.weight"):
            out[name] = torch.empty(shape).uniform_(-0.5, 0.5, generator=gen)
        elif name.endswith("linear_attn.norm.weight"):
            out[name] = torch.ones(shape)
        elif len(shape) == 1:
            out[name] = torch.zeros(shape)
        else:
            scale = {"embed_tokens.weight": 0.1, "lm_head.weight": 0.01}.get(name)
            out[name] = torch.randn(shape, generator=gen) * (scale or 0.7 * shape[-1] ** -0.5)
    return out


def layer_weights(weights: Weights, prefix: str) -> Weights:
    """Returns the tensors under `prefix`, with the prefix cut off."""
    return {n[len(prefix) :]: v for n, v in weights.items() if n.startswith(prefix)}


def rms(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Zero-centred RMS norm over the last dimension, weight applied as 1 + w (fused kernel)."""
    return functional.rms_norm(x, (x.shape[-1],), 1 + weight, 1e-6)


def mlp(x: torch.Tensor, w: Weights) -> torch.Tensor:
    """SwiGLU."""
    gate = functional.silu(functional.linear(x, w["mlp.gate_proj.weight"]))
    up = functional.linear(x, w["mlp.up_proj.weight"])
    return functional.linear(gate * up, w["mlp.down_proj.weight"])


class _UnitLowerInverse(torch.autograd.Function):
    """Inverse of I + L for strictly lower L [..., n, n], fp32, with a matmul-only backward."""

    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, lower: torch.Tensor) -> torch.Tensor:
        """Solves (I + L) X = I."""
        eye = torch.eye(lower.shape[-1], device=lower.device, dtype=lower.dtype)
        inverse = torch.linalg.solve_triangular(
            lower + eye, eye.expand_as(lower).contiguous(), upper=False, unitriangular=True
        )
        ctx.save_for_backward(inverse)
        return inverse

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, *grads: torch.Tensor) -> torch.Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Returns -X' grad X' for the one incoming gradient."""
        (inverse,) = ctx.saved_tensors  # pyright: ignore[reportAttributeAccessIssue]
        flipped = inverse.transpose(-1, -2)
        return -(flipped @ grads[0] @ flipped)


def decays(c: torch.Tensor) -> torch.Tensor:
    """Returns exp(c_i - c_j) for i >= j, else 0, of cumulated log decays c [..., n]."""
    keep = torch.ones(c.shape[-1], c.shape[-1], dtype=torch.bool, device=c.device).tril()
    return (c[..., :, None] - c[..., None, :]).masked_fill(~keep, -1e9).exp()


def convolved(x: torch.Tensor, weight: torch.Tensor, taps: torch.Tensor) -> torch.Tensor:
    """Projection and causal depthwise convolution as one product.

    x [B, T, K], weight [C, K], taps [C, n] -> [B, T, C]. Tap n - 1 belongs to the current token.
    The product of tap and weight is rounded once more than in the released model.
    """
    count = taps.shape[1]
    padded = functional.pad(x, (0, 0, count - 1, 0))
    shifts = torch.cat([padded[:, j : j + x.shape[1]] for j in range(count)], -1)
    folded = (weight[:, None].float() * taps[..., None].float()).flatten(1)
    return functional.linear(shifts, folded.to(x.dtype))


def unit(x: torch.Tensor) -> torch.Tensor:
    """Divides by the root of the sum of squares over the last dimension."""
    return functional.rms_norm(x, (x.shape[-1],), None, 1e-6 / x.shape[-1]) * x.shape[-1] ** -0.5


def delta_chunks(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, beta: torch.Tensor, g: torch.Tensor
) -> torch.Tensor:
    """Gated delta rule from an empty state, in chunks of 64.

    q, k [B, T, D] (one key head, normalised, q scaled) and v [B, T, H, D] in the working type;
    beta and g fp32 [B, T, H]; returns [B, T, H, D]. The state and the small triangular
    systems are fp32; products take operands in the working type.
    """
    batch, length, heads, dim = v.shape
    n, kind = length // CHUNK, v.dtype
    q, k = (x.view(batch, n, CHUNK, dim) for x in (q, k))
    v = v.view(batch, n, CHUNK, heads, dim).transpose(2, 3)
    beta, g = (x.view(batch, n, CHUNK, heads).transpose(2, 3) for x in (beta, g))
    c = g.cumsum(-1)
    decay = decays(c)
    lower = ((k @ k.transpose(-1, -2)).float()[:, :, None] * decay * beta[..., None]).tril(-1)
    inverse = _UnitLowerInverse.apply(lower)
    u = (inverse * beta[..., None, :]).to(kind) @ v
    w = (inverse * (beta * c.exp())[..., None, :]).to(kind).flatten(2, 3) @ k
    w = w.unflatten(2, (heads, CHUNK))
    inside = ((q @ k.transpose(-1, -2))[:, :, None] * decay).to(kind)
    q_in = q[:, :, None] * c.exp()[..., None].to(kind)
    k_out = (k[:, :, None] * (c[..., -1:] - c).exp()[..., None].to(kind)).transpose(-1, -2)
    fade = c[..., -1].exp()[..., None, None]
    state = torch.zeros(batch, heads, dim, dim, device=q.device)
    outs = []
    for i in range(n):
        held = state.to(kind)
        fresh = u[:, i] - w[:, i] @ held
        outs.append(q_in[:, i] @ held + inside[:, i] @ fresh)
        state = fade[:, i] * state + k_out[:, i] @ fresh
    return torch.stack(outs, 1).transpose(2, 3).reshape(batch, length, heads, dim)


def delta_mixer(x: torch.Tensor, w: Weights, s: Shape) -> torch.Tensor:
    """Gated-delta mixer over normed x [B, T, hidden]."""
    n = "linear_attn."
    mixed = convolved(x, w[n + "in_proj_qkv.weight"], w[n + "conv1d.weight"][:, 0])
    split = [s.delta_dim, s.delta_dim, s.value_heads * s.delta_dim]
    q, k, v = functional.silu(mixed).split(split, -1)
    beta = functional.linear(x, w[n + "in_proj_b.weight"]).sigmoid().float()
    a = functional.linear(x, w[n + "in_proj_a.weight"]).float() + w[n + "dt_bias"].float()
    g = -w[n + "A_log"].float().exp() * functional.softplus(a)
    v = v.unflatten(-1, (s.value_heads, s.delta_dim))
    out = delta_chunks(unit(q) * s.delta_dim**-0.5, unit(k), v, beta, g)
    z = functional.linear(x, w[n + "in_proj_z.weight"]).unflatten(-1, (s.value_heads, s.delta_dim))
    out = functional.rms_norm(out, (s.delta_dim,), w[n + "norm.weight"], 1e-6) * functional.silu(z)
    return functional.linear(out.flatten(2), w[n + "out_proj.weight"])


def rope_tables(s: Shape, length: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns cos and sin [length, rotary], fp32."""
    inv = s.theta ** (-torch.arange(0, s.rotary, 2, device=device).float() / s.rotary)
    angle = torch.arange(length, device=device).float()[:, None] * inv
    angle = torch.cat([angle, angle], -1)
    return angle.cos(), angle.sin()


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Half-split rotation of the first dims of x [B, heads, T, head_dim]; the rest passes."""
    width = cos.shape[-1]
    part, rest = x[..., :width], x[..., width:]
    one, two = part.chunk(2, -1)
    turned = part * cos.to(x.dtype) + torch.cat([-two, one], -1) * sin.to(x.dtype)
    return torch.cat([turned, rest], -1)


def attention_parts(
    x: torch.Tensor, w: Weights, s: Shape, cos: torch.Tensor, sin: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    """Returns q [B, heads, T, d], k, v [B, 1, T, d] (q, k rotated) and gate [B, T, heads * d]."""
    both = functional.linear(x, w["self_attn.q_proj.weight"]).unflatten(
        -1, (s.heads, 2 * s.head_dim)
    )
    q, gate = both.split(s.head_dim, -1)
    k, v = (
        functional.linear(x, w["self_attn.k_proj.weight"]),
        functional.linear(x, w["self_attn.v_proj.weight"]),
    )
    q = rotate(rms(q, w["self_attn.q_norm.weight"]).transpose(1, 2), cos, sin)
    k = rotate(rms(k, w["self_attn.k_norm.weight"])[:, None], cos, sin)
    return q, k, v[:, None], gate.flatten(2)


def attention_mixer(
    x: torch.Tensor, w: Weights, s: Shape, cos: torch.Tensor, sin: torch.Tensor
) -> torch.Tensor:
    """Gated causal attention over normed x [B, T, hidden]."""
    q, k, v, gate = attention_parts(x, w, s, cos, sin)
    k, v = k.expand_as(q), v.expand_as(q)
    out = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    out = out.transpose(1, 2).flatten(2) * gate.sigmoid()
    return functional.linear(out, w["self_attn.o_proj.weight"])


def delta_layer(x: torch.Tensor, w: Weights, s: Shape) -> torch.Tensor:
    """One gated-delta decoder layer."""
    x = x + delta_mixer(rms(x, w["input_layernorm.weight"]), w, s)
    return x + mlp(rms(x, w["post_attention_layernorm.weight"]), w)


def attention_layer(
    x: torch.Tensor, w: Weights, s: Shape, cos: torch.Tensor, sin: torch.Tensor
) -> torch.Tensor:
    """One full-attention decoder layer."""
    x = x + attention_mixer(rms(x, w["input_layernorm.weight"]), w, s, cos, sin)
    return x + mlp(rms(x, w["post_attention_layernorm.weight"]), w)


def trunk(ids: torch.Tensor, weights: Weights, s: Shape) -> torch.Tensor:
    """Runs the trunk over ids [B, T]; returns the hidden state after the final norm."""
    x = functional.embedding(ids, weights["embed_tokens.weight"])
    cos, sin = rope_tables(s, ids.shape[1], ids.device)
    for i in range(s.layers):
        w = layer_weights(weights, f"layers.{i}.")
        x = attention_layer(x, w, s, cos, sin) if s.is_full(i) else delta_layer(x, w, s)
    return rms(x, weights["norm.weight"])
