"""Say whether what kernels read before their predecessor has ended was written by then.

    python overlap_script.py MAJOR.MINOR [HASTY]

A launch that overlaps begins when the one before has let it: most kernels do at once, products when
all before them has ended. Prints how often each kernel was looked at, and what it read too early in
prompts, rounds and drafts. With HASTY, a kernel's name, that one lets go at once as well: a check
of what this script notices.
"""

import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT))

import torch  # noqa: E402
from triton.runtime.jit import JITFunction  # noqa: E402

from kernels.common.cuda_kernel import CudaKernel, Launch  # noqa: E402
from tests.engine.model.launch_script import PROFILES, small_model, steps  # noqa: E402
from tests.fakes.launching import pretend  # noqa: E402

AT_ONCE = {
    "add_norm", "add_rms_norm_kernel", "attention_prep_kernel", "best_of_chunk_kernel",
    "best_of_row_kernel", "combine", "conv_gates_kernel", "conv_rows", "delta_walk",
    "delta_walk_team", "embed_kernel", "gated_rms_norm_kernel", "mixer_rows", "rms_norm_kernel",
    "silu_mul_kernel", "verify", "verify_codes",
}  # fmt: skip
"""Kernels that let the next one start before they have waited themselves."""

EARLY = {
    "add_norm": "residual",
    "conv_gates_kernel": "gates_ptr",
    "conv_rows": "inputs",
    "mixer_rows": "inputs",
}
"""What a kernel reads before it waits, of what is written within a round."""

WRITTEN = ("out", "residual_out", "out_ptr", "residual_out_ptr")


@dataclass(frozen=True)
class Launched:
    """One launch: whether it overlaps, and the addresses of what it takes, by name."""

    name: str
    overlaps: bool
    places: Mapping[str, int]


def ended(order: Sequence[Launched], reader: int) -> int:
    """How many launches have ended for certain when one of them begins."""
    if not order[reader].overlaps:
        return reader
    for at in range(reader - 1, -1, -1):
        one = order[at]
        if one.name == "skinny" and one.name not in AT_ONCE:
            return at
        if one.name not in AT_ONCE:
            return at + 1
        if not one.overlaps:
            return at
    return 0


def read_early(order: Sequence[Launched]) -> tuple[Counter[str], list[str]]:
    """The kernels that read early what an earlier launch wrote; those of them that came too early.

    Who writes without a launch of ours is torch, whose launches never overlap.
    """
    looked_at, found = Counter[str](), list[str]()
    for reader, one in enumerate(order):
        place = one.places.get(EARLY.get(one.name, ""))
        writers = [
            at for at in range(reader) if place in [order[at].places.get(to) for to in WRITTEN]
        ]
        if not one.overlaps or place is None or not writers:
            continue
        looked_at[one.name] += 1
        if writers[-1] >= ended(order, reader):
            found.append(f"{one.name} reads what {order[writers[-1]].name} writes")
    return looked_at, found


def record() -> list[Launched]:
    """Note launches from now on, in order."""
    order: list[Launched] = []
    launch, run = CudaKernel.launch, JITFunction.run

    def launch_noted(kernel: Any, shape: Launch, *arguments: Any) -> None:
        launch(kernel, shape, *arguments)
        told = arguments[0]
        places = {
            name: getattr(told, name) for name, *_ in told._fields_ if name not in ("next", "gate")
        }
        order.append(Launched(kernel.name, shape.overlap, places))

    def run_noted(kernel: Any, *arguments: Any, grid: Any, **named: Any) -> None:
        run(kernel, *arguments, grid=grid, **named)
        given = dict(zip([one.name for one in kernel.params], arguments, strict=False)) | named
        places = {
            name: one.data_ptr() for name, one in given.items() if isinstance(one, torch.Tensor)
        }
        if given.get("INPUTS") == 0:  # a | b themselves, which it reads when it has waited
            places.pop("gates_ptr", None)
        name = kernel.fn.__name__
        order.append(Launched(name, bool(named.get("launch_pdl")), places))

    CudaKernel.launch, JITFunction.run = launch_noted, run_noted
    return order


def main(capability: tuple[int, int], hasty: str = "") -> None:
    models = {profile: small_model(profile, capability, overlap=True) for profile in PROFILES}
    pretend(capability)
    order = record()
    AT_ONCE.update({hasty} - {""})
    looked_at, found = Counter[str](), list[str]()
    for profile, model in models.items():
        for name, launch in steps(model).items():
            order.clear()
            launch()
            counted, early = read_early(order)
            looked_at += counted
            found += [f"{profile}, {name}: {one}" for one in early]
    print(json.dumps({"looked_at": looked_at, "too_early": found}))  # noqa: T201


if __name__ == "__main__":
    major, minor = sys.argv[1].split(".")
    main((int(major), int(minor)), *sys.argv[2:])
