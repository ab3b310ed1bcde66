"""A full-size model with random weights for the benches: asked whether it fits, then drawn."""

import random
from dataclasses import dataclass
from typing import Any

import torch

from engine.arithmetic import arithmetic_id
from engine.compute_path import HELD_FORMATS, ComputePath
from engine.errors import MemoryPlanError
from engine.machine.measure import read_bandwidth
from engine.model import footprint
from engine.model.config import ModelConfig
from engine.model.decoder import Model
from engine.model.kv_scales import SEQUENCE_TOKENS, calibrate
from engine.model.memory import MemoryPlan, plan_serving
from engine.model.random import random_model
from engine.profile import Profile
from engine.sizes import size_text
from engine.types import KvFormat, Progress

DRAWING_BYTES = 1 << 30
"""Room for a snapshot, and for a matrix in fp32 while its codes are drawn."""


@dataclass(frozen=True, slots=True)
class BenchModel:
    """A drawn model and what a reader of its figures must know.

    Attributes:
        model: with random weights, greedy, without stop ids.
        path: that it runs on.
        read_gb_s: read bandwidth measured in this run.
        facts: JSON values about model and machine.
    """

    model: Model
    path: ComputePath
    read_gb_s: float
    facts: dict[str, Any]


def draw_model(
    name: str,
    config: ModelConfig,
    profile: Profile,
    path: ComputePath,
    *,
    device: str,
    num_tokens: int,
    smaller: str,
    progress: Progress,
    kv: KvFormat = "bf16",
    hidden_tokens: int = 0,
    num_conversations: int = 1,
) -> BenchModel:
    """Measure the read bandwidth and draw a model that fits.

    Args:
        name: of the sizes, for a reader of the figures.
        config: the sizes.
        profile: its formats are drawn.
        path: how weights are held.
        device: "cpu" or "cuda".
        num_tokens: the longest context that is left room for.
        smaller: what asks for less, for the refusal.
        progress: called with a sentence for each step.
        kv: format of keys and values.
        hidden_tokens: tokens whose rows are held twice, as prefill returns them.
        num_conversations: states that are held at once.

    Raises:
        MemoryPlanError: the model does not fit on the device.
    """
    plan = _plan(config, profile, path, device, num_tokens, kv)
    _expect_room(plan, 2 * 2 * config.hidden_size * hidden_tokens, num_conversations, smaller)
    progress("measuring the read bandwidth")
    read_gb_s = read_bandwidth(device).gb_s
    progress(f"drawing the weights of {name}")
    packer = path.new_packer()
    model = random_model(config, profile.formats, device=device, packer=packer)
    notice = packer.notice if packer else ""
    if kv == "fp8":
        progress("calibrating the scales of keys and values")
        model.kv_scales = calibrate(model, [any_ids(config, SEQUENCE_TOKENS)])
    facts: dict[str, Any] = {
        "shape": name,
        "profile": profile.name,
        "path": path.description,
        "notices": [one for one in (path.rehearsal, path.why_not, notice) if one],
        "weight_bytes": model.weight_bytes,
        "device": torch.cuda.get_device_name() if device == "cuda" else "cpu",
        "torch": torch.__version__,
        "kv": kv,
        "arithmetic": arithmetic_id(device, packer.arithmetic if packer else "", model.kv_scales),
        "read_gb_s": read_gb_s,
    }
    return BenchModel(model, path, read_gb_s, facts)


def any_ids(config: ModelConfig, number: int) -> list[int]:
    """A text: any tokens do, the same ones every time."""
    draw = random.Random(0)
    return [draw.randrange(config.vocab_size) for _ in range(number)]


def _plan(
    config: ModelConfig,
    profile: Profile,
    path: ComputePath,
    device: str,
    num_tokens: int,
    kv: KvFormat,
) -> MemoryPlan:
    formats = profile.formats if path.is_packed else HELD_FORMATS
    weights = footprint.weight_bytes(config, formats, packed=path.is_packed)
    return plan_serving(
        config, sum(weights.values()), device, packed=path.is_packed,
        with_mtp=bool(config.num_mtp_layers), context_tokens=num_tokens, snapshot_mb=0, kv=kv,
    )  # fmt: skip


def _expect_room(plan: MemoryPlan, row_bytes: int, num_conversations: int, smaller: str) -> None:
    more = (num_conversations - 1) * sum(plan.kept.values())
    needed = plan.needed + more + row_bytes + DRAWING_BYTES
    if needed > plan.available:
        context = num_conversations * plan.kept["context"]
        raise MemoryPlanError(
            f"The model needs {size_text(needed)} (weights {size_text(plan.weights)}, keys and "
            f"values of {plan.context_tokens:,} tokens {size_text(context)}) and "
            f"{size_text(plan.available)} are free.",
            f"Take {smaller}.",
        )
