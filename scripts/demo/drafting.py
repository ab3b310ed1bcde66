"""The MTP layer in training form: a chain of draft steps from every position at once.

Index i of a row joins the trunk's hidden state at i with token i + 1 and predicts token i + 2.
Step d of the chain that starts at i sees what it will see when it drafts: the real rows up to i
(depth 0) and the chain's own earlier rows, never another chain's.
"""

from __future__ import annotations

import torch
from torch.nn import functional

from demo.network import Shape, Weights, attention_parts, layer_weights, mlp, rms, rope_tables


def _join(embedded: torch.Tensor, hidden: torch.Tensor, weights: Weights) -> torch.Tensor:
    """Fc over [normed embedding | normed hidden]."""
    left = rms(embedded, weights["mtp.pre_fc_norm_embedding.weight"])
    right = rms(hidden, weights["mtp.pre_fc_norm_hidden.weight"])
    return functional.linear(torch.cat([left, right], -1), weights["mtp.fc.weight"])


def _chain_attention(
    q: torch.Tensor, real: tuple[torch.Tensor, torch.Tensor], own: list[tuple[torch.Tensor, ...]]
) -> torch.Tensor:
    """Attention of row i over the real rows up to i and the chain's own rows.

    q [B, heads, T, d]; `real` holds k and v [B, 1, T, d] of depth 0; `own` a k, v pair for each
    later depth. At depth 0 `own` is empty. Returns [B, T, heads * d].
    """
    keys, values = real
    length = q.shape[2]
    if not own:
        return (
            functional.scaled_dot_product_attention(
                q, keys.expand_as(q), values.expand_as(q), is_causal=True
            )
            .transpose(1, 2)
            .flatten(2)
        )
    q = q * q.shape[-1] ** -0.5
    later = torch.full((length, length), -1e9, dtype=q.dtype, device=q.device).triu(1)
    scores = (q.flatten(1, 2) @ keys[:, 0].transpose(-1, -2)).view(*q.shape[:3], length) + later
    extra = [(q * k).sum(-1, keepdim=True) for k, _ in own]
    weight = torch.cat([scores, *extra], -1).softmax(-1)
    out = (weight[..., :length].flatten(1, 2) @ values[:, 0]).view_as(q)
    for j, (_, v) in enumerate(own):
        out = out + weight[..., length + j, None] * v
    return out.transpose(1, 2).flatten(2)


def draft_step(
    embedded: torch.Tensor, hidden: torch.Tensor, weights: Weights, s: Shape, kept: list, depth: int
) -> torch.Tensor:
    """One draft step of every chain: returns the post-norm hidden [B, T, hidden].

    `kept` collects (k, v) of every depth so far; this step's pair is appended.
    """
    w = layer_weights(weights, "mtp.layers.0.")
    x = _join(embedded, hidden, weights)
    cos, sin = rope_tables(s, x.shape[1] + depth, x.device)
    normed = rms(x, w["input_layernorm.weight"])
    q, k, v, gate = attention_parts(normed, w, s, cos[depth:], sin[depth:])
    kept.append((k, v))
    mixed = _chain_attention(q, kept[0], kept[1:]) * gate.sigmoid()
    x = x + functional.linear(mixed, w["self_attn.o_proj.weight"])
    x = x + mlp(rms(x, w["post_attention_layernorm.weight"]), w)
    return rms(x, weights["mtp.norm.weight"])


def shifted(ids: torch.Tensor, by: int) -> torch.Tensor:
    """Returns ids [B, T] moved left by `by`, filled with zeros at the end."""
    return functional.pad(ids[:, by:], (0, by))


def draft_hiddens(
    ids: torch.Tensor, hidden: torch.Tensor, weights: Weights, s: Shape, depths: int
) -> list[torch.Tensor]:
    """Returns the hiddens of each depth with the true tokens fed (for training)."""
    kept: list = []
    out = []
    for depth in range(depths):
        embedded = functional.embedding(shifted(ids, 1 + depth), weights["embed_tokens.weight"])
        hidden = draft_step(embedded, hidden, weights, s, kept, depth)
        out.append(hidden)
    return out


def draft_tokens(
    ids: torch.Tensor, hidden: torch.Tensor, weights: Weights, s: Shape, depths: int
) -> torch.Tensor:
    """Returns greedy drafts [B, T, depths]: entry (i, d) is the guess for token i + 2 + d."""
    kept: list = []
    feed, out = shifted(ids, 1), []
    for depth in range(depths):
        embedded = functional.embedding(feed, weights["embed_tokens.weight"])
        hidden = draft_step(embedded, hidden, weights, s, kept, depth)
        feed = functional.linear(hidden, weights["lm_head.weight"]).argmax(-1)
        out.append(feed)
    return torch.stack(out, -1)
