"""Muon for the projection matrices, AdamW for the rest."""

from __future__ import annotations

from collections import defaultdict

import torch

from demo.network import Weights

_ADAM_RATES = {"embed_tokens.weight": 2.0, "lm_head.weight": 1.0}


def orthogonalised(x: torch.Tensor, steps: int = 5) -> torch.Tensor:
    """Newton-Schulz: moves the singular values of each matrix of x [n, r, c] towards 1 (bf16)."""
    a, b, c = 3.4445, -4.7750, 2.0315
    tall = x.shape[-2] > x.shape[-1]
    y = (x.transpose(-1, -2) if tall else x).bfloat16()
    y = y / (y.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(steps):
        gram = y @ y.transpose(-1, -2)
        y = a * y + (b * gram + c * gram @ gram) @ y
    return y.transpose(-1, -2) if tall else y


def is_projection(name: str, weight: torch.Tensor) -> bool:
    """True for the 2-D matrices that Muon steps (and for `mtp.fc`)."""
    skip = ("embed_tokens.weight", "lm_head.weight", "in_proj_a.weight", "in_proj_b.weight")
    return weight.dim() == 2 and not name.endswith(skip)


class Optimiser:
    """Steps fp32 master weights in place."""

    def __init__(self, weights: Weights, muon: float = 0.02, adam: float = 3e-3) -> None:
        """Groups same-shaped projections into stacks; rates are those of the plateau."""
        self.weights, self.muon, self.adam = weights, muon, adam
        self.stacks: dict[tuple[int, ...], list[str]] = defaultdict(list)
        for name, weight in weights.items():
            if is_projection(name, weight):
                self.stacks[tuple(weight.shape)].append(name)
        stacked = {n for names in self.stacks.values() for n in names}
        self.plain = [n for n in weights if n not in stacked]
        self.moment = {
            shape: torch.zeros(len(names), *shape, device=weights[names[0]].device)
            for shape, names in self.stacks.items()
        }
        groups = [
            {
                "params": [weights[n]],
                "lr": adam * _ADAM_RATES.get(n, 1.0),
                "scale": _ADAM_RATES.get(n, 1.0),
            }
            for n in self.plain
        ]
        fused = weights[self.plain[0]].is_cuda
        self.inner = torch.optim.AdamW(
            groups, betas=(0.9, 0.95), eps=1e-10, weight_decay=0.0, fused=fused
        )

    @torch.no_grad()
    def step(self, scale: float, momentum: float = 0.95, decay: float = 0.05) -> None:
        """One step with the rates times `scale`; clears the gradients."""
        for group in self.inner.param_groups:
            group["lr"] = self.adam * group["scale"] * scale
        self.inner.step()
        for shape, names in self.stacks.items():
            params = [self.weights[n] for n in names]
            grad = torch.stack([p.grad for p in params if p.grad is not None])
            moment = self.moment[shape]
            moment.lerp_(grad, 1 - momentum)
            update = orthogonalised(grad.lerp(moment, momentum)).float()
            rate = self.muon * scale * max(1.0, shape[0] / shape[1]) ** 0.5
            torch._foreach_mul_(params, 1 - self.muon * scale * decay)
            torch._foreach_add_(params, list(update.unbind(0)), alpha=-rate)
        for weight in self.weights.values():
            weight.grad = None
