#!/usr/bin/env python3
"""Hold the memory plan against what a GPU then gives out, with random weights of the full size.

Opens an engine as chat does, reads a long prompt, drafts in every way, goes back and edits. Exit
status 1 when the most that the GPU gave out is more than 3 % off the plan. What torch allocated is
less than that: the pools of graphs are only reserved, and loaded kernels are not torch's at all.
"""

import argparse
import sys
import threading

import torch

from engine.bench.random_engine import random_engine
from engine.profile import get_profile, load_profiles
from engine.settings.declared import ModelSettings, Settings
from engine.types import Request, Sampling, TurnEnded

BAR = 0.03


def main() -> int:
    """Plan, serve, compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shape", default="27b")
    parser.add_argument("--profile", default="nvfp4")
    parser.add_argument("--context", type=int, default=32_768)
    parser.add_argument("--prompt", type=int, default=4096)
    parser.add_argument("--snapshot-mb", type=int, default=1600)
    arguments = parser.parse_args()
    torch.zeros(1, device="cuda")  # the context, which the plan does not hold
    gpu = _Gpu()
    place = ModelSettings(
        device="cuda", context_tokens=arguments.context, snapshot_mb=arguments.snapshot_mb
    )
    engine, plan = random_engine(
        arguments.shape, get_profile(arguments.profile, load_profiles()), Settings(model=place)
    )
    torch.cuda.empty_cache()  # what drawing the weights took, and measuring the bandwidth
    torch.cuda.reset_peak_memory_stats()
    gpu.tell("opened")
    for part, size in plan.parts.items():
        print(f"  planned {part:<14}{size / 1e6:>12.1f} MB")
    ids = tuple(5 + (7 * one) % 997 for one in range(arguments.prompt))
    prompt: tuple[int, ...] = ()
    for number, drafter in enumerate(("auto", "mtp", "lookup", "off") * 3):
        prompt = (*prompt, *ids[: 300 if number else None], 11 + number)
        request = Request(
            prompt_ids=prompt, drafter=drafter, max_tokens=24,
            sampling=Sampling(temperature=0.8, top_p=0.95, seed=number, presence_penalty=0.5),
        )  # fmt: skip
        *_, end = engine.generate(request, threading.Event())
        assert isinstance(end, TurnEnded)
        record = end.record
        prompt = (*prompt, *record.token_ids)
        told = record.error or record.finish_reason
        print(f"{drafter}: {len(prompt)} tokens, {record.reused_tokens} reused, {told}")
        gpu.tell(f"  after {drafter}")
    print(f"planned {plan.needed / 1e9:.3f} GB, at most:")
    for name, peak in gpu.peaks().items():
        print(f"  {name:<16}{peak / 1e9:.3f} GB {peak / plan.needed - 1:+.1%}")
    return 0 if abs(gpu.most_used / plan.needed - 1) <= BAR else 1


class _Gpu:
    """What the GPU gave out since now, and what torch says of it."""

    def __init__(self) -> None:
        self._free_at_first = torch.cuda.mem_get_info()[0]
        self.most_used = 0

    def tell(self, when: str) -> None:
        used = self._free_at_first - torch.cuda.mem_get_info()[0]
        self.most_used = max(self.most_used, used)
        print(
            f"{when}: {torch.cuda.memory_allocated() / 1e6:.1f} MB held, "
            f"{torch.cuda.max_memory_allocated() / 1e6:.1f} at most, "
            f"{torch.cuda.memory_reserved() / 1e6:.1f} reserved, {used / 1e6:.1f} of the GPU",
            flush=True,
        )

    def peaks(self) -> dict[str, int]:
        return {
            "allocated": torch.cuda.max_memory_allocated(),
            "reserved": torch.cuda.max_memory_reserved(),
            "of the GPU": self.most_used,
        }


if __name__ == "__main__":
    sys.exit(main())
