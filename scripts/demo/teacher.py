"""The teacher: SmolLM2-135M-Instruct read from its GGUF, with continuous batching.

Written for throughput on one large GPU: a static cache of `rows` sequences, one captured graph a
step, and finished rows refilled by short prefills. About 200 k tokens a second on an H200.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional

HEADS, KV_HEADS, HEAD, EPS, THETA = 9, 3, 64, 1e-5, 1e5
GROUP = HEADS // KV_HEADS
END = 2  # <|im_end|>


def load_gguf(path: Path, device: str, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """Returns the dequantised tensors by GGUF name ('blk.0.attn_q.weight'), [out, in]."""
    from gguf import GGUFReader, dequantize  # pyright: ignore[reportMissingImports]

    out = {}
    for tensor in GGUFReader(str(path)).tensors:
        array = np.array(dequantize(tensor.data, tensor.tensor_type))
        weight = torch.from_numpy(array).reshape(tuple(int(n) for n in tensor.shape[::-1]))
        if tensor.name.endswith(("attn_q.weight", "attn_k.weight")):
            rows, width = weight.shape
            pairs = weight.view(rows // HEAD, HEAD // 2, 2, width)
            weight = pairs.transpose(1, 2).reshape(rows, width)
        out[tensor.name] = weight.to(device, dtype)
    return out


def _rms(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """RMS norm over the last dimension, fp32 inside."""
    return functional.rms_norm(x.float(), (x.shape[-1],), weight.float(), EPS).to(x.dtype)


def _rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Half-split rotary embedding; cos and sin broadcast against x [..., HEAD]."""
    one, two = x.chunk(2, -1)
    return x * cos + torch.cat([-two, one], -1) * sin


@dataclass
class Answer:
    """One finished generation: the prompt's index, new token ids, and whether it ended itself."""

    prompt: int
    ids: np.ndarray
    ended: bool


class Teacher:
    """Generates answers for many prompts at once."""

    def __init__(
        self,
        weights: dict[str, torch.Tensor],
        prefix: np.ndarray,
        rows: int,
        slots: int,
        budget: int,
    ) -> None:
        """Allocates the cache: `rows` sequences of `slots` positions, `budget` new tokens each.

        The keys and values of the common `prefix` ids are kept once, before every row's own slots.
        """
        self.w = weights
        self.layers = 1 + max(int(n.split(".")[1]) for n in weights if n.startswith("blk."))
        embed = weights["token_embd.weight"]
        self.device, self.dtype = embed.device, embed.dtype
        self.rows, self.slots, self.budget = rows, slots, budget
        shape = (self.layers, rows, KV_HEADS, slots, HEAD)
        self.k = torch.zeros(shape, device=self.device, dtype=self.dtype)
        self.v = torch.zeros_like(self.k)
        inv = THETA ** (-torch.arange(0, HEAD, 2, device=self.device).float() / HEAD)
        self.shared = len(prefix)
        angle = torch.arange(self.shared + slots, device=self.device).float()[:, None] * inv
        angle = torch.cat([angle, angle], -1)
        self.cos, self.sin = angle.cos().to(self.dtype), angle.sin().to(self.dtype)
        zeros = lambda *s: torch.zeros(*s, device=self.device, dtype=torch.long)
        self.pos, self.token, self.made = zeros(rows), zeros(rows), zeros(rows)
        self.out = zeros(rows, budget + 1)
        self.done = torch.ones(rows, device=self.device, dtype=torch.bool)
        self.all = torch.arange(rows, device=self.device)
        self.places = torch.arange(slots, device=self.device)
        self.temperature, self.min_p = 0.45, 0.1
        self.prefix_k = torch.zeros(
            self.layers, 1, KV_HEADS, 0, HEAD, device=self.device, dtype=self.dtype
        )
        self.prefix_v = self.prefix_k
        _, keys, values = self._forward(torch.from_numpy(prefix.astype(np.int64))[None], 0)
        self.prefix_k, self.prefix_v = torch.stack(keys), torch.stack(values)

    def _mlp(self, layer: int, x: torch.Tensor) -> torch.Tensor:
        """SwiGLU of one layer."""
        w, n = self.w, f"blk.{layer}.ffn_"
        gate, up = (
            functional.linear(x, w[n + "gate.weight"]),
            functional.linear(x, w[n + "up.weight"]),
        )
        return functional.linear(functional.silu(gate) * up, w[n + "down.weight"])

    def _qkv(self, layer: int, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Returns q [..., HEADS, HEAD], k and v [..., KV_HEADS, HEAD], not yet rotated."""
        n = f"blk.{layer}.attn_"
        q, k, v = (functional.linear(x, self.w[n + f"{c}.weight"]) for c in "qkv")
        return (
            q.unflatten(-1, (HEADS, HEAD)),
            k.unflatten(-1, (KV_HEADS, HEAD)),
            v.unflatten(-1, (KV_HEADS, HEAD)),
        )

    def _pick(self, hidden: torch.Tensor) -> torch.Tensor:
        """Samples one id per row of hidden [N, width]: temperature and min-p, by Gumbel argmax."""
        hidden = _rms(hidden, self.w["output_norm.weight"])
        logits = functional.linear(hidden, self.w["token_embd.weight"]).float() / self.temperature
        floor = logits.amax(-1, keepdim=True) + float(np.log(self.min_p))
        noise = torch.empty_like(logits).exponential_().log_()
        return torch.where(logits < floor, -torch.inf, logits - noise).argmax(-1)

    @torch.no_grad()
    def _forward(self, ids: torch.Tensor, start: int) -> tuple[torch.Tensor, list, list]:
        """Runs ids [n, width] that follow `start` prefix tokens; returns hidden, keys, values."""
        rows, width = ids.shape
        x = functional.embedding(ids.to(self.device), self.w["token_embd.weight"])
        cos, sin = self.cos[start : start + width, None], self.sin[start : start + width, None]
        sees = torch.ones(width, start + width, dtype=torch.bool, device=self.device).tril(start)
        sees = sees.repeat(GROUP, 1)
        keys, values = [], []
        for layer in range(self.layers):
            q, k, v = self._qkv(layer, _rms(x, self.w[f"blk.{layer}.attn_norm.weight"]))
            q, k = _rotate(q, cos, sin).transpose(1, 2), _rotate(k, cos, sin).transpose(1, 2)
            keys.append(k)
            values.append(v.transpose(1, 2))
            full = [
                torch.cat([p[layer].expand(rows, -1, -1, -1), c[-1]], 2)
                for p, c in ((self.prefix_k, keys), (self.prefix_v, values))
            ]
            q = q.reshape(rows, KV_HEADS, GROUP * width, HEAD)
            mixed = functional.scaled_dot_product_attention(q, *full, attn_mask=sees)
            mixed = mixed.view(rows, HEADS, width, HEAD).transpose(1, 2).flatten(2)
            x = x + functional.linear(mixed, self.w[f"blk.{layer}.attn_output.weight"])
            x = x + self._mlp(layer, _rms(x, self.w[f"blk.{layer}.ffn_norm.weight"]))
        return x, keys, values

    @torch.no_grad()
    def prefill(self, rows: torch.Tensor, prompts: list[np.ndarray]) -> None:
        """Fills the cache rows [n] with n prompts (right-padded) and samples their first token."""
        lengths = torch.tensor([len(p) for p in prompts])
        width = int(lengths.max())
        ids = torch.zeros(len(prompts), width, dtype=torch.long)
        for i, p in enumerate(prompts):
            ids[i, : len(p)] = torch.from_numpy(p.astype(np.int64))
        lengths = lengths.to(self.device)
        x, keys, values = self._forward(ids, self.shared)
        for layer, (k, v) in enumerate(zip(keys, values, strict=True)):
            self.k[layer, rows, :, :width] = k
            self.v[layer, rows, :, :width] = v
        first = self._pick(x[torch.arange(len(prompts), device=self.device), lengths - 1])
        self.pos[rows], self.token[rows], self.out[rows, 0] = lengths, first, first
        self.made[rows] = 1
        self.done[rows] = first == END

    def _attend(self, layer: int, q: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        """One query a row over prefix and cache. q [rows, HEADS, HEAD] -> [rows, HEADS * HEAD]."""
        q = q.view(self.rows, KV_HEADS, GROUP, HEAD) * HEAD**-0.5
        grouped = q.transpose(0, 1).reshape(KV_HEADS, -1, HEAD)
        common = torch.bmm(grouped, self.prefix_k[layer, 0].transpose(1, 2))
        common = common.view(KV_HEADS, self.rows, GROUP, self.shared).transpose(0, 1)
        own = torch.matmul(q, self.k[layer].transpose(-1, -2)) + bias
        weight = torch.cat([common, own], -1).float().softmax(-1).to(self.dtype)
        first, second = weight.split([self.shared, self.slots], -1)
        first = first.transpose(0, 1).reshape(KV_HEADS, -1, self.shared)
        mixed = torch.bmm(first, self.prefix_v[layer, 0])
        mixed = mixed.view(KV_HEADS, self.rows, GROUP, HEAD).transpose(0, 1)
        return (mixed + torch.matmul(second, self.v[layer])).flatten(1)

    @torch.no_grad()
    def step(self) -> None:
        """Decodes one token in every row that is not done."""
        x = functional.embedding(self.token, self.w["token_embd.weight"])
        place = self.pos + self.shared
        cos, sin = self.cos[place][:, None], self.sin[place][:, None]
        hide = self.places[None] > self.pos[:, None]
        bias = torch.zeros(hide.shape, device=self.device, dtype=self.dtype)
        bias = bias.masked_fill(hide, -1e9)[:, None, None]
        for layer in range(self.layers):
            q, k, v = self._qkv(layer, _rms(x, self.w[f"blk.{layer}.attn_norm.weight"]))
            self.k[layer][self.all, :, self.pos] = _rotate(k, cos, sin)
            self.v[layer][self.all, :, self.pos] = v
            mixed = self._attend(layer, _rotate(q, cos, sin), bias)
            x = x + functional.linear(mixed, self.w[f"blk.{layer}.attn_output.weight"])
            x = x + self._mlp(layer, _rms(x, self.w[f"blk.{layer}.ffn_norm.weight"]))
        picked = torch.where(self.done, END, self._pick(x))
        self.out.scatter_(1, self.made[:, None], picked[:, None])
        live = (~self.done).long()
        self.made.add_(live).clamp_(max=self.budget)
        self.pos.add_(live).clamp_(max=self.slots - 1)
        self.token.copy_(picked)
        full = (self.made >= self.budget) | (self.pos >= self.slots - 1)
        self.done.copy_(self.done | (picked == END) | full)

    def _captured(self) -> torch.cuda.CUDAGraph | None:
        """Captures `step` in a graph on a GPU; None on CPU."""
        if self.device.type != "cuda":
            return None
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for _ in range(3):
                self.step()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.step()
        self.done.fill_(True)
        return graph

    def run(self, prompts: list[np.ndarray], seconds: float, every: int = 8) -> Iterator[Answer]:
        """Yields answers until the prompts or the seconds are used up (in order of finishing)."""
        graph = self._captured()
        owner = np.full(self.rows, -1)
        todo, start = 0, time.time()
        while True:
            done = self.done.cpu().numpy()
            finished = np.flatnonzero(done & (owner >= 0))
            if len(finished):
                index = torch.from_numpy(finished).to(self.device)
                out, made = self.out[index].cpu().numpy(), self.made[index].cpu().numpy()
                for row, ids, count in zip(finished, out, made, strict=True):
                    ended = bool(count and ids[count - 1] == END)
                    yield Answer(int(owner[row]), ids[: count - ended], ended)
                owner[finished] = -1
            if time.time() - start > seconds or (todo >= len(prompts) and (owner < 0).all()):
                return
            free = np.flatnonzero(owner < 0)[: len(prompts) - todo]
            if len(free) and (len(free) >= self.rows // 16 or (owner < 0).all()):
                for part in np.array_split(free, max(1, len(free) // 1024)):
                    batch = prompts[todo : todo + len(part)]
                    self.prefill(torch.from_numpy(part).to(self.device), batch)
                    owner[part] = np.arange(todo, todo + len(part))
                    todo += len(part)
            for _ in range(every):
                graph.replay() if graph else self.step()
