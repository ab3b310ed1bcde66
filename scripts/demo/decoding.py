"""A small eager decoder of the exported files: greedy answers and what the MTP chain would save.

All rows walk in step: each is fed its prompt, then its own tokens. Arithmetic is fp32 over the
dequantised weights.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import safe_open
from torch.nn import functional

from demo.drafting import draft_tokens
from demo.fp8 import dequantise
from demo.network import (
    Shape,
    Weights,
    attention_parts,
    layer_weights,
    mlp,
    rms,
    rope_tables,
    unit,
)


def load_weights(folder: Path) -> tuple[Weights, Shape]:
    """Returns fp32 weights by short name, and the sizes, from an exported folder."""
    where = json.loads((folder / "model.safetensors.index.json").read_text())["weight_map"]
    raw: Weights = {}
    for file in sorted(set(where.values())):
        with safe_open(str(folder / file), "pt") as data:
            raw |= {name: data.get_tensor(name) for name in data.keys()}  # noqa: SIM118
    out = {}
    for name, value in raw.items():
        if name.endswith("_scale_inv"):
            continue
        scale = raw.get(name + "_scale_inv")
        wide = value.float() if scale is None else dequantise(value, scale)
        out[name.removeprefix("model.language_model.")] = wide
    text = json.loads((folder / "config.json").read_text())["text_config"]
    return out, Shape(
        vocab=text["vocab_size"],
        hidden=text["hidden_size"],
        layers=text["num_hidden_layers"],
        mlp=text["intermediate_size"],
    )


class Walker:
    """Feeds one token a step to every row and keeps all states."""

    def __init__(self, weights: Weights, shape: Shape, rows: int, length: int) -> None:
        """Empty states for `rows` sequences of at most `length` tokens."""
        self.s, self.weights, self.at = shape, weights, 0
        self.layers = [layer_weights(weights, f"layers.{i}.") for i in range(shape.layers)]
        self.cos, self.sin = rope_tables(shape, length, torch.device("cpu"))
        value = shape.value_heads * shape.delta_dim
        self.tails, self.states, self.keys, self.values = {}, {}, {}, {}
        for i in range(shape.layers):
            if shape.is_full(i):
                self.keys[i] = torch.zeros(rows, 1, length, shape.head_dim)
                self.values[i] = torch.zeros_like(self.keys[i])
            else:
                self.tails[i] = torch.zeros(rows, shape.conv - 1, 2 * shape.delta_dim + value)
                self.states[i] = torch.zeros(
                    rows, shape.value_heads, shape.delta_dim, shape.delta_dim
                )

    def _delta(self, i: int, x: torch.Tensor) -> torch.Tensor:
        """One token through a gated-delta mixer: x [rows, hidden]."""
        w, s = self.layers[i], self.s
        get = lambda part: w[f"linear_attn.{part}"]
        window = torch.cat(
            [self.tails[i], functional.linear(x, get("in_proj_qkv.weight"))[:, None]], 1
        )
        self.tails[i] = window[:, 1:]
        mixed = functional.silu((window * get("conv1d.weight")[:, 0].T).sum(1))
        q, k, v = mixed.split([s.delta_dim, s.delta_dim, s.value_heads * s.delta_dim], -1)
        q, k, v = unit(q) * s.delta_dim**-0.5, unit(k), v.unflatten(-1, (s.value_heads, -1))
        beta = functional.linear(x, get("in_proj_b.weight")).sigmoid()
        g = functional.softplus(functional.linear(x, get("in_proj_a.weight")) + get("dt_bias"))
        state = self.states[i] * (-get("A_log").exp() * g).exp()[..., None, None]
        change = beta[..., None] * (v - torch.einsum("rhkv,rk->rhv", state, k))
        state = state + torch.einsum("rk,rhv->rhkv", k, change)
        self.states[i] = state
        out = torch.einsum("rhkv,rk->rhv", state, q)
        z = functional.linear(x, get("in_proj_z.weight")).unflatten(-1, (s.value_heads, -1))
        out = functional.rms_norm(out, (s.delta_dim,), get("norm.weight"), 1e-6) * functional.silu(
            z
        )
        return functional.linear(out.flatten(1), get("out_proj.weight"))

    def _attention(self, i: int, x: torch.Tensor) -> torch.Tensor:
        """One token through a gated attention mixer: x [rows, hidden]."""
        here = slice(self.at, self.at + 1)
        parts = attention_parts(x[:, None], self.layers[i], self.s, self.cos[here], self.sin[here])
        q, k, v, gate = parts
        self.keys[i][:, :, here], self.values[i][:, :, here] = k, v
        keys, values = (
            c[i][:, :, : self.at + 1].expand(-1, self.s.heads, -1, -1)
            for c in (self.keys, self.values)
        )
        out = functional.scaled_dot_product_attention(q, keys, values).transpose(1, 2).flatten(2)
        out = (out * gate.sigmoid())[:, 0]
        return functional.linear(out, self.layers[i]["self_attn.o_proj.weight"])

    def step(self, ids: torch.Tensor) -> torch.Tensor:
        """Takes one id a row [rows]; returns the hidden after the final norm [rows, hidden]."""
        x = functional.embedding(ids, self.weights["embed_tokens.weight"])
        for i, w in enumerate(self.layers):
            mixer = self._attention if self.s.is_full(i) else self._delta
            x = x + mixer(i, rms(x, w["input_layernorm.weight"]))
            x = x + mlp(rms(x, w["post_attention_layernorm.weight"]), w)
        self.at += 1
        return rms(x, self.weights["norm.weight"])


@dataclass
class Reply:
    """One greedy answer: its ids without the end mark, whether it ended, committed per round."""

    ids: list[int]
    ended: bool
    rounds: list[int]


@torch.no_grad()
def greedy(
    weights: Weights,
    s: Shape,
    prompts: list[list[int]],
    stops: set[int],
    budget: int = 120,
    chain: int = 3,
) -> list[Reply]:
    """Answers all prompts greedily and replays what a chain of `chain` drafts would commit."""
    length = max(map(len, prompts)) + budget
    walker = Walker(weights, s, len(prompts), length)
    ids = torch.zeros(len(prompts), length, dtype=torch.long)
    ends = [0] * len(prompts)
    hiddens = []
    for row, prompt in enumerate(prompts):
        ids[row, : len(prompt)] = torch.tensor(prompt)
    for at in range(length - 1):
        hiddens.append(walker.step(ids[:, at]))
        best = functional.linear(hiddens[-1], weights["lm_head.weight"]).argmax(-1).tolist()
        for row, prompt in enumerate(prompts):
            if at + 1 >= len(prompt) and not ends[row]:
                ids[row, at + 1] = best[row]
                full = at + 2 - len(prompt) >= budget
                ends[row] = at + 1 if best[row] in stops or full else 0
        if all(ends):
            break
    used = len(hiddens)
    drafts = draft_tokens(ids[:, :used], torch.stack(hiddens, 1), weights, s, chain)
    out = []
    for row, prompt in enumerate(prompts):
        last = ends[row] or length - 1
        ended = int(ids[row, last]) in stops
        answer = ids[row, len(prompt) : last + (not ended)].tolist()
        out.append(Reply(answer, ended, _rounds(ids[row], drafts[row], len(prompt), last)))
    return out


def _rounds(ids: torch.Tensor, drafts: torch.Tensor, first: int, last: int) -> list[int]:
    """Returns the tokens committed by each round after the prefill's token at `first`.

    At a round the newest token is at p; the chain from index p - 1 guesses p + 1, p + 2, ...; the
    accepted guesses and the trunk's own next token are committed, up to the end mark at `last`.
    """
    out, p = [], first
    while p < last:
        accepted = 0
        while accepted < drafts.shape[-1] and p + 1 + accepted <= last:
            if int(drafts[p - 1, accepted]) != int(ids[p + 1 + accepted]):
                break
            accepted += 1
        taken = min(accepted + 1, last - p)
        out.append(taken)
        p += taken
    return out
