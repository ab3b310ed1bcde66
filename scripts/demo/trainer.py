"""The training loop: chat loss on the trunk, chain loss on the MTP layer, stopped by the clock."""

from __future__ import annotations

import json
import math
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from torch.nn import functional

from demo import drafting, network
from demo.fp8 import rounded
from demo.network import Shape, Weights
from demo.optimiser import Optimiser
from demo.packing import Corpus, Packer

CHAIN_WEIGHTS = (1.0, 0.8, 0.6)


@dataclass
class Plan:
    """How long and how hard to train.

    `seconds` is the whole loop; the rate decays from `hold` to the end; fake FP8 from `fp8_from`
    on (both shares of the time).
    """

    seconds: float
    tokens: int = 65536
    hold: float = 0.4
    fp8_from: float = 0.8
    warmup: int = 60
    report: int = 50
    max_steps: int = 10**9


def cross_entropy(
    hidden: torch.Tensor,
    head: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor,
    kind: torch.dtype = torch.float32,
) -> torch.Tensor:
    """Weighted sum of cross entropies: hidden [B, T, H], head [V, H], target, weight [B, T].

    `kind` is the type of the log-probabilities (the drafts are content with bf16).
    """
    logits = functional.linear(hidden, head).to(kind).flatten(0, 1)
    losses = functional.cross_entropy(logits, target.flatten().long(), reduction="none")
    return (losses.float() * weight.flatten().float()).sum()


def losses(
    ids: torch.Tensor, weight: torch.Tensor, w: Weights, s: Shape
) -> tuple[torch.Tensor, ...]:
    """Returns (trunk loss, chain loss, trunk loss on answers) for one batch, each a mean."""
    hidden = network.trunk(ids, w, s)
    target, worth = drafting.shifted(ids, 1), functional.pad(weight[:, 1:], (0, 1))
    trunk = cross_entropy(hidden, w["lm_head.weight"], target, worth) / worth.float().sum()
    fixed = {n: v if n.startswith("mtp.") else v.detach() for n, v in w.items()}
    chain = torch.zeros((), device=ids.device)
    steps = drafting.draft_hiddens(ids, hidden.detach(), fixed, s, len(CHAIN_WEIGHTS))
    for depth, (share, state) in enumerate(zip(CHAIN_WEIGHTS, steps, strict=True)):
        answers = functional.pad((weight[:, 2 + depth :] > 0.5).float(), (0, 2 + depth))
        aim = drafting.shifted(ids, 2 + depth)
        part = cross_entropy(state, fixed["lm_head.weight"], aim, answers, torch.bfloat16)
        chain = chain + share * part / answers.sum().clamp(min=1) / sum(CHAIN_WEIGHTS)
    return trunk, chain


@torch.no_grad()
def evaluate(packer: Packer, weights: Weights, s: Shape, fp8: bool, rows: int = 512) -> dict:
    """Held-out mean loss on answer tokens (nats) and share of right drafts by depth.

    The drafts are judged against the true next tokens, each step given the true ones before it.
    """
    w = rounded(weights, fp8)
    packer.rng = type(packer.rng)(type(packer.rng.bit_generator)(1))
    ids, weight = packer.rows(packer.rng.permutation(len(packer.lengths)), 128, 0.0)
    total = count = 0.0
    right = torch.zeros(len(CHAIN_WEIGHTS), device=ids.device)
    for i in range(0, min(len(ids), 4 * rows), rows):
        part, graded = ids[i : i + rows], (weight[i : i + rows] > 0.5).float()
        hidden = network.trunk(part, w, s)
        mask = functional.pad(graded[:, 1:], (0, 1))
        total += float(cross_entropy(hidden, w["lm_head.weight"], drafting.shifted(part, 1), mask))
        count += float(mask.sum())
        for depth, state in enumerate(drafting.draft_hiddens(part, hidden, w, s, len(right))):
            guess = functional.linear(state, w["lm_head.weight"]).argmax(-1)
            hit = (guess == drafting.shifted(part, 2 + depth)) * functional.pad(
                graded[:, 2 + depth :], (0, 2 + depth)
            )
            right[depth] += hit.sum()
    return {"loss": total / count, "draft": [round(float(r) / count, 4) for r in right]}


def rate_scale(step: int, share: float, plan: Plan) -> float:
    """Warm-up by steps, plateau, then linear decay to 2 % by the clock."""
    warm = min(1.0, (step + 1) / plan.warmup)
    tail = (share - plan.hold) / (1 - plan.hold)
    return warm * (1.0 if tail <= 0 else max(0.02, 1 - tail))


def save(path: Path, weights: Weights, s: Shape, notes: dict) -> None:
    """Writes a checkpoint: BF16 of the fp32 masters would lose the FP8 rounding, so fp32."""
    masters = {n: v.detach().float().cpu() for n, v in weights.items()}
    torch.save({"weights": masters, "shape": s.as_dict(), "notes": notes}, path)


class Run:
    """One training run: weights, optimiser, held-out judge, log and clock."""

    def __init__(self, held: Corpus, s: Shape, plan: Plan, out: Path, device: str) -> None:
        """Starts from fresh weights on `device`; writes into the folder `out`."""
        self.s, self.plan, self.out = s, plan, out
        fresh = network.initial_weights(s)
        self.weights = {n: v.to(device).requires_grad_() for n, v in fresh.items()}
        self.optimiser = Optimiser(self.weights)
        self.judge = Packer(held, device, pad=0)
        self.log = (out / "log.jsonl").open("w")
        self.start, self.steps, self.saved = time.time(), 0, 0.0

    def share(self) -> float:
        """Share of the planned seconds that is over; 1 or more ends the run."""
        return (time.time() - self.start) / self.plan.seconds

    def step(self, ids: torch.Tensor, weight: torch.Tensor) -> None:
        """One optimiser step on a batch, with a log row and a checkpoint when they are due."""
        share = self.share()
        fp8 = share > self.plan.fp8_from
        trunk, chain = losses(ids, weight, rounded(self.weights, fp8), self.s)
        (trunk + chain).backward()
        self.optimiser.step(rate_scale(self.steps, share, self.plan))
        self.steps += 1
        if self.steps % self.plan.report == 0:
            self._note({"trunk": float(trunk.detach()), "chain": float(chain.detach())}, fp8)
        if share - self.saved > 0.2:
            save(self.out / "demo.pt", self.weights, self.s, {"step": self.steps})
            self.saved = share

    def _note(self, row: dict, fp8: bool) -> None:
        """Logs a row of losses; every tenth row with the held-out figures."""
        if not math.isfinite(row["trunk"]):
            raise FloatingPointError(f"loss is not finite at step {self.steps}")
        if self.steps % (self.plan.report * 10) == 0:
            row |= {"held_out": evaluate(self.judge, self.weights, self.s, fp8)}
        self._write(row | {"fp8": fp8})

    def _write(self, row: dict) -> None:
        """Prints a row and appends it to log.jsonl."""
        row |= {"step": self.steps, "seconds": round(time.time() - self.start, 1)}
        print(json.dumps(row), flush=True)
        self.log.write(json.dumps(row) + "\n")
        self.log.flush()

    def finish(self) -> None:
        """Evaluates with and without FP8, then writes the last row and the checkpoint."""
        notes = {
            "bf16": evaluate(self.judge, self.weights, self.s, fp8=False),
            "fp8": evaluate(self.judge, self.weights, self.s, fp8=True),
        }
        self._write(notes)
        self.log.close()
        save(self.out / "demo.pt", self.weights, self.s, notes)


def train(corpus: Corpus, held: Corpus, s: Shape, plan: Plan, out: Path, device: str) -> Weights:
    """Trains for `plan.seconds` and writes `out`/log.jsonl and `out`/demo.pt; returns masters."""
    torch.set_float32_matmul_precision("high")
    packer = Packer(corpus, device, pad=0)
    run = Run(held, s, plan, out, device)
    while True:
        for ids, weight in packer.epoch(plan.tokens):
            if run.share() >= 1 or run.steps >= plan.max_steps:
                run.finish()
                return run.weights
            run.step(ids, weight)
