"""Time decode rounds of a full-size model with random weights: no download, no text.

A round here verifies a draft that the target agrees with, so that all its rows are computed. It
runs on the path that the engine serves turns with, and is compared with the read bandwidth that
this machine showed in the same run.
"""

import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from engine.errors import MemoryPlanError, RequestError, nearest
from engine.linear_path import LinearPath, choose_linear_path
from engine.measure import read_bandwidth_gbps
from engine.model import footprint
from engine.model.config import SHAPES, ModelConfig
from engine.model.decoder import Model
from engine.model.memory import available_bytes
from engine.model.random import random_model
from engine.model.state import State
from engine.open import HELD_FORMATS, arithmetic_id
from engine.profile import Profile
from engine.records import PHASES
from engine.settings.declared import Settings, load_settings
from engine.turn.clock import PhaseClock
from engine.turn.traffic import WalkTraffic
from engine.turn.verify import RowWalk

MAX_ROWS = 32
WORKSPACE_BYTES = 1 << 30
"""Room for activations, and for a matrix in fp32 while its codes are drawn."""

NUM_WARM_UP = 2
"""Rounds before the timed ones: allocators and libraries settle."""


@dataclass(frozen=True, slots=True)
class RoundTiming:
    """Rounds of one number of rows: medians over the repetitions."""

    rows: int
    round_ms: float
    best_ms: float
    ms: dict[str, float]
    num_bytes: dict[str, int]
    gb_s: float
    share: float
    """``gb_s`` over the read bandwidth measured in this run."""


def bench_round(
    shape: str,
    profile: Profile,
    rows: Sequence[int],
    *,
    device: str,
    context_tokens: int,
    num_repetitions: int,
    progress: Callable[[str], object],
    settings: Settings | None = None,
) -> dict[str, Any]:
    """Time rounds; returns everything that a reader of the figures must know, as JSON values.

    Args:
        shape: one of ``engine.model.config.SHAPES``.
        profile: its formats are drawn.
        rows: rows of each kind of round.
        device: "cpu" or "cuda".
        context_tokens: tokens before the rounds.
        num_repetitions: rounds that are timed.
        progress: called with a sentence for each step.
        settings: which kernels run; None for the person's own.

    Raises:
        RequestError: the shape or a number of rows is not to be had.
        MemoryPlanError: the model does not fit on the device.
    """
    config = _config(shape, rows)
    num_tokens = context_tokens + max(rows)
    path = choose_linear_path(settings or load_settings()[0], device)
    _expect_room(config, profile, num_tokens, device, path)
    progress("measuring the read bandwidth")
    read_gb_s = read_bandwidth_gbps(device)
    progress(f"drawing the weights of {shape}")
    packer = path.new_packer()
    model = random_model(config, profile.formats, device=device, packer=packer)
    state = model.new_state(num_tokens)
    progress(f"reading {context_tokens} tokens")
    model.prefill(_ids(config, context_tokens), state)
    timings: list[RoundTiming] = []
    for num_rows in rows:
        progress(f"rounds of {num_rows} row{'s' * (num_rows > 1)}")
        timings.append(_time_rows(model, state, num_rows, num_repetitions, read_gb_s))
    return {
        "shape": shape,
        "profile": profile.name,
        "path": path.description,
        "notices": [one for one in (path.why_not, packer.notice if packer else "") if one],
        "weight_bytes": model.weight_bytes,
        "device": torch.cuda.get_device_name() if device == "cuda" else "cpu",
        "torch": torch.__version__,
        "arithmetic": arithmetic_id(device, packer.arithmetic if packer else ""),
        "context_tokens": context_tokens,
        "repetitions": num_repetitions,
        "read_gb_s": read_gb_s,
        "rounds": timings,
    }


def _config(shape: str, rows: Sequence[int]) -> ModelConfig:
    if shape not in SHAPES:
        raise RequestError(f"There is no shape '{shape}'.", nearest(shape, SHAPES))
    for num_rows in rows:
        if not 1 <= num_rows <= MAX_ROWS:
            raise RequestError(f"A round has 1 to {MAX_ROWS} rows, not {num_rows}.")
    return SHAPES[shape]


def _expect_room(
    config: ModelConfig, profile: Profile, num_tokens: int, device: str, path: LinearPath
) -> None:
    formats = profile.formats if path.is_packed else HELD_FORMATS
    weights = sum(footprint.weight_bytes(config, formats, packed=path.is_packed).values())
    cache = footprint.kv_bytes_per_token(config) * num_tokens
    needed = weights + cache + footprint.state_bytes(config) + WORKSPACE_BYTES
    free = available_bytes(device)
    if needed > free:
        raise MemoryPlanError(
            f"The model needs {needed / 1e9:.1f} GB and {free / 1e9:.1f} GB are free.",
            "Take --shape demo, or a smaller --context.",
        )


def _ids(config: ModelConfig, number: int) -> list[int]:
    draw = random.Random(0)  # any tokens do, the same ones every time
    return [draw.randrange(config.vocab_size) for _ in range(number)]


def _time_rows(
    model: Model, state: State, num_rows: int, num_repetitions: int, read_gb_s: float
) -> RoundTiming:
    traffic = WalkTraffic(model.config, model.weights.part_bytes)
    num_bytes = traffic(state.length, num_rows, 0)
    start = state.snapshot()
    every: list[dict[str, float]] = []
    for _ in range(NUM_WARM_UP + num_repetitions):
        every.append(_one_round(model, state, num_rows))
        state.restore(start)  # so that every round moves the bytes that are counted
    timed = every[NUM_WARM_UP:]
    totals = [sum(one.values()) for one in timed]
    round_ms = statistics.median(totals)
    gb_s = sum(num_bytes.values()) / round_ms / 1e6
    return RoundTiming(
        rows=num_rows,
        round_ms=round_ms,
        best_ms=min(totals),
        ms={name: statistics.median(one[name] for one in timed) for name in PHASES},
        num_bytes=num_bytes,
        gb_s=gb_s,
        share=gb_s / read_gb_s,
    )


def _one_round(model: Model, state: State, num_rows: int) -> dict[str, float]:
    draft = _ids(model.config, num_rows - 1)
    left = iter([*draft, 0])

    def agree(logits: torch.Tensor) -> tuple[int, bool]:
        int(logits.argmax())  # what accepting costs, and the device is done behind it
        return next(left), True

    clock = PhaseClock(model.device)
    RowWalk(model).verify(0, draft, state, agree, clock)
    clock.enter("host")
    return clock.stop()
