"""Time the reading of prompts by a full-size model with random weights.

Each length is read from an empty conversation, in the chunks that a turn reads in; then the head
scores the last row and the first token is chosen. That token must be the same every time.
"""

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch

from engine.bench.model import BenchModel, any_ids, draw_model
from engine.compute_path import KernelError, choose_compute_path
from engine.errors import RequestError
from engine.model.config import ModelConfig, config_of_shape
from engine.model.decoder import Model
from engine.model.state import State
from engine.model.tensors import expected_tensors, weight_part
from engine.profile import Profile, kv_format_of
from engine.settings.declared import Settings
from engine.turn.choice import TokenChooser
from engine.turn.clock import wait_for
from engine.types import Progress, Sampling


@dataclass(frozen=True, slots=True)
class PrefillTiming:
    """Prompts of one length: medians over the repetitions.

    Attributes:
        tokens: of the prompt.
        chunks: that it is cut into.
        ms: reading alone, by the clock that the result names.
        best_ms: the fastest of them.
        tok_s: tokens over ``ms``.
        first_token_ms: reading, head and choice, until the host holds the token.
        tflop_s: of the products of the layers, 2 x parameters x tokens, over ``ms``.
        weight_bytes: what the layers' weights are, read once a chunk.
        gb_s: ``weight_bytes`` of all chunks over ``ms``.
        share: ``gb_s`` over the read bandwidth measured in this run.
    """

    tokens: int
    chunks: int
    ms: float
    best_ms: float
    tok_s: float
    first_token_ms: float
    tflop_s: float
    weight_bytes: int
    gb_s: float
    share: float


@dataclass(frozen=True, slots=True)
class _Read:
    """One prompt, read once."""

    ms: float
    first_token_ms: float
    token_id: int


def bench_prefill(
    shape: str,
    profile: Profile,
    lengths: Sequence[int],
    *,
    device: str,
    num_repetitions: int,
    progress: Progress,
    settings: Settings,
) -> dict[str, Any]:
    """Time prompts; returns everything that a reader of the figures must know, as JSON values.

    Args:
        shape: one of ``engine.model.config.SHAPES``.
        profile: its formats are drawn.
        lengths: tokens of each prompt.
        device: "cpu" or "cuda".
        num_repetitions: prompts of each length that are timed, behind one that is not.
        progress: called with a sentence for each step.
        settings: which kernels run.

    Raises:
        RequestError: the shape or a length is not to be had.
        MemoryPlanError: the model does not fit on the device with the longest prompt.
        KernelError: the same prompt was followed by two different tokens.
    """
    config = config_of_shape(shape)
    _expect_lengths(lengths, config)
    path = choose_compute_path(settings, device)
    longest = max(lengths)
    bench = draw_model(
        shape, config, profile, path, device=device, num_tokens=longest, hidden_tokens=longest,
        smaller="--shape demo, or a shorter prompt with --tokens", progress=progress,
        kv=kv_format_of(profile, settings),
    )  # fmt: skip
    state = bench.model.new_state(longest)
    timings: list[PrefillTiming] = []
    for length in lengths:
        progress(f"prompts of {length:,} tokens")
        timings.append(_time_length(bench, state, length, num_repetitions))
    return bench.facts | {
        "chunk_tokens": bench.model.chunk_tokens,
        "repetitions": num_repetitions,
        "clock": "device events" if device == "cuda" else "host",
        "first_token_clock": "host, until the token is read",
        "parameters": product_parameters(config),
        "prompts": timings,
    }


def product_parameters(config: ModelConfig) -> int:
    """Parameters of the matrices of all layers; embedding, head and MTP layer are left out."""
    return sum(
        spec.num_elements
        for name, spec in expected_tensors(config).items()
        if spec.matrix and weight_part(name, spec) == "weights"
    )


def _expect_lengths(lengths: Sequence[int], config: ModelConfig) -> None:
    most = config.max_position_embeddings
    for length in lengths:
        if not 1 <= length <= most:
            raise RequestError(f"A prompt of this shape has 1 to {most:,} tokens, not {length:,}.")


def _time_length(
    bench: BenchModel, state: State, length: int, num_repetitions: int
) -> PrefillTiming:
    ids = any_ids(bench.model.config, length)
    first, *timed = (_read(bench.model, state, ids) for _ in range(1 + num_repetitions))
    for one in timed:
        if one.token_id != first.token_id:
            raise KernelError(
                f"A prompt of {length:,} tokens was followed by token {first.token_id}, and read "
                f"again by {one.token_id}.",
                "Tell us what 'qwen38 check' says.",
            )
    ms = statistics.median(one.ms for one in timed)
    weight_bytes = bench.model.weights.part_bytes["weights"]
    chunks = -(-length // bench.model.chunk_tokens)
    gb_s = weight_bytes * chunks / ms / 1e6
    return PrefillTiming(
        tokens=length,
        chunks=chunks,
        ms=ms,
        best_ms=min(one.ms for one in timed),
        tok_s=length / ms * 1e3,
        first_token_ms=statistics.median(one.first_token_ms for one in timed),
        tflop_s=2 * product_parameters(bench.model.config) * length / ms / 1e9,
        weight_bytes=weight_bytes,
        gb_s=gb_s,
        share=gb_s / bench.read_gb_s,
    )


def _read(model: Model, state: State, ids: Sequence[int]) -> _Read:
    chooser = TokenChooser(Sampling(temperature=0.0), model.config.vocab_size, ())
    state.clear()
    wait_for(model.device)
    began_s = time.perf_counter()
    watch = _Stopwatch(model.device)
    watch.mark()
    hidden = model.prefill(ids, state)
    watch.mark()
    token_id = chooser.choose(model.logits(hidden[-1:])[0], len(ids))
    first_token_ms = (time.perf_counter() - began_s) * 1e3
    return _Read(watch.ms(), first_token_ms, token_id)


class _Stopwatch:
    """Marks in the order of the device's work: events on a GPU, the host's clock on a CPU."""

    def __init__(self, device: torch.device) -> None:
        self._is_cuda = device.type == "cuda"
        self._marks: list[Any] = []

    def mark(self) -> None:
        """Make a mark."""
        if not self._is_cuda:
            self._marks.append(time.perf_counter())
            return
        event = cast("Any", torch.cuda).Event(enable_timing=True)
        event.record()
        self._marks.append(event)

    def ms(self) -> float:
        """Milliseconds from the first mark to the last; waits for it."""
        first, *_, last = self._marks
        if not self._is_cuda:
            return (last - first) * 1e3
        last.synchronize()
        return first.elapsed_time(last)
