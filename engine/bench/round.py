"""Time decode rounds of a full-size model with random weights: no download, no text.

What plain decode chose is replayed in rounds of several rows, one behind the other, and the target
must agree with each row: so the bench proves what it times. Rounds run on the path that the engine
serves turns with, and are compared with the read bandwidth that this machine showed in this run.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from engine.bench.drafts import time_drafts, tokens_for
from engine.bench.launches import Kernels, Place, watch_kernels
from engine.bench.model import BenchModel, draw_model
from engine.bench.replay import Replay, Replayed
from engine.compute_path import choose_compute_path
from engine.errors import RequestError
from engine.model.config import ModelConfig, config_of_shape
from engine.profile import Profile, kv_format_of
from engine.records import PHASES
from engine.settings.declared import Settings
from engine.sizes import counted
from engine.turn.verify import Verifier
from engine.types import Progress
from kernels.common.round import MAX_ROWS

NUM_WARM_UP = 2
"""Rounds before the timed ones: allocators and libraries settle, and a graph is captured."""

BYTES_OF_PHASE = {
    "draft": ("drafter",),
    "verify": ("weights", "head", "state", "kv"),
    "accept": (),
    "host": (),
}
"""The parts of a round's bytes that each of the four phases moves."""


@dataclass(frozen=True, slots=True)
class PhaseTiming:
    """One phase of a round: median time, what it launches and moves.

    ``launches`` counts kernels, from a graph or not; None where nothing counts them.
    """

    ms: float
    launches: int | None
    num_bytes: int
    gb_s: float
    share: float


@dataclass(frozen=True, slots=True)
class RoundTiming:
    """Rounds of one number of rows: medians over the repetitions.

    ``num_bytes`` are by ``engine.records.BYTE_PARTS``, ``phases`` by ``engine.records.PHASES``.
    ``host_share`` is the part of the round that is not its phase ``verify``: a replayed draft is no
    work of the GPU, so it waits. Rounds are foreseen, as those of a copy are: the next one is got
    ready while one runs. ``unforeseen_share`` is the same part where none is. ``gap_share`` is that
    of the GPU's time in which no kernel runs. All are None on a CPU, the last, ``launches`` and
    ``kernels`` also where the driver lets nobody look.
    """

    rows: int
    round_ms: float
    best_ms: float
    ms: dict[str, float]
    launches: int | None
    num_bytes: dict[str, int]
    gb_s: float
    share: float
    """``gb_s`` over the read bandwidth measured in this run."""
    host_share: float | None
    unforeseen_share: float | None
    gap_share: float | None
    phases: dict[str, PhaseTiming]
    kernels: tuple[Place, ...] | None
    """Where the GPU's time goes, by kernel and the one before it."""


def bench_round(
    shape: str,
    profile: Profile,
    rows: Sequence[int],
    *,
    device: str,
    context_tokens: int,
    num_repetitions: int,
    progress: Progress,
    settings: Settings,
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
        settings: which kernels run.

    Raises:
        RequestError: the shape, a number of rows or the context is not to be had.
        MemoryPlanError: the model does not fit on the device.
        KernelError: a round chose other tokens than plain decode.
    """
    config = config_of_shape(shape)
    expect_rows(rows)
    num_rounds = NUM_WARM_UP + num_repetitions
    # one record of plain decode serves both tables
    num_decoded = max(max(rows) * num_rounds, tokens_for(num_repetitions))
    expect_context(context_tokens, num_decoded, config)
    num_tokens = context_tokens + num_decoded
    path = choose_compute_path(settings, device)
    bench = draw_model(
        shape, config, profile, path, device=device, num_tokens=num_tokens,
        smaller="--shape demo, or a smaller --context", progress=progress, num_conversations=2,
        kv=kv_format_of(profile, settings),
    )  # fmt: skip
    progress(f"reading {context_tokens} tokens")
    replay = Replay(bench.model, context_tokens, num_tokens)
    verifier = path.new_verifier(bench.model)
    progress("decoding plainly what the rounds will replay")
    replay.decode(verifier)
    timed: list[_Timed] = []
    for num_rows in rows:
        progress(f"rounds of {counted(num_rows, 'row')}")
        both = (
            _time_rows(replay, verifier, num_rows, num_repetitions, foresees=one)
            for one in (True, False)
        )
        timed.append(_Timed(*both))
    # behind all that is timed: a profiler leaves its traces
    progress("rounds that the MTP head drafts")
    drafts = time_drafts(
        bench.model, verifier, context_tokens, replay.truth, num_repetitions, watches=True
    )
    kernels = [_watch(replay, verifier, one, device) for one in rows]
    timings = [_timing(bench, replay, *one) for one in zip(rows, timed, kernels, strict=True)]
    return bench.facts | {
        "context_tokens": context_tokens,
        "repetitions": num_repetitions,
        "rounds": timings,
        "drafts": drafts,
    }


def expect_rows(rows: Sequence[int]) -> None:
    """Refuse rounds that there are not.

    Raises:
        RequestError: a number of rows is below 1 or above 32.
    """
    for num_rows in rows:
        if not 1 <= num_rows <= MAX_ROWS:
            raise RequestError(f"A round has 1 to {MAX_ROWS} rows, not {num_rows}.")


def expect_context(context_tokens: int, num_decoded: int, config: ModelConfig) -> None:
    """Refuse rounds behind a context that leaves them no positions.

    Raises:
        RequestError: the model has none for ``num_decoded`` tokens behind ``context_tokens``.
    """
    most = config.max_position_embeddings
    if context_tokens + num_decoded > most:
        raise RequestError(
            f"The model has {most:,} positions; {context_tokens:,} tokens of context and rounds of "
            f"{num_decoded:,} behind them take more.",
            "Take a smaller --context, or fewer rounds.",
        )


def _time_rows(
    replay: Replay, verifier: Verifier, num_rows: int, num_repetitions: int, *, foresees: bool
) -> list[Replayed]:
    num_rounds = NUM_WARM_UP + num_repetitions
    rounds = replay.rounds(verifier, num_rows, num_rounds, foresees=foresees)
    return [one.proven("A round") for one in rounds][NUM_WARM_UP:]


def _watch(replay: Replay, verifier: Verifier, num_rows: int, device: str) -> Kernels | None:
    list(replay.rounds(verifier, num_rows, 1))  # drafted rounds ran in another state in between
    return watch_kernels(lambda: list(replay.rounds(verifier, num_rows, 1)), device)


@dataclass(frozen=True, slots=True)
class _Timed:
    """Rounds of one number of rows, foreseen and not."""

    foreseen: Sequence[Replayed]
    unforeseen: Sequence[Replayed]


def _timing(
    bench: BenchModel, replay: Replay, num_rows: int, timed: _Timed, kernels: Kernels | None
) -> RoundTiming:
    rounds = timed.foreseen
    totals = [sum(one.ms.values()) for one in rounds]
    round_ms = statistics.median(totals)
    num_before = replay.start.length + (NUM_WARM_UP + len(rounds) // 2) * num_rows
    num_bytes = bench.path.traffic_of(bench.model)(num_before, num_rows, num_rows, 0)
    ms = {name: statistics.median(one.ms[name] for one in rounds) for name in PHASES}
    gb_s = sum(num_bytes.values()) / round_ms / 1e6
    launches = kernels.number if kernels is not None else None
    on_gpu = bench.model.device.type == "cuda"
    return RoundTiming(
        rows=num_rows,
        round_ms=round_ms,
        best_ms=min(totals),
        ms=ms,
        launches=launches,
        num_bytes=num_bytes,
        gb_s=gb_s,
        share=gb_s / bench.read_gb_s,
        host_share=_host_share(rounds) if on_gpu else None,
        unforeseen_share=_host_share(timed.unforeseen) if on_gpu else None,
        gap_share=kernels.gap_share if kernels is not None else None,
        phases={
            name: _phase(name, ms[name], launches, num_bytes, bench.read_gb_s) for name in PHASES
        },
        kernels=kernels.places if kernels is not None else None,
    )


def _host_share(rounds: Sequence[Replayed]) -> float:
    """The median over rounds of the part that is not the phase ``verify``."""
    return statistics.median(1 - one.ms["verify"] / sum(one.ms.values()) for one in rounds)


def _phase(
    name: str, ms: float, launches: int | None, num_bytes: dict[str, int], read_gb_s: float
) -> PhaseTiming:
    moved = sum(num_bytes[part] for part in BYTES_OF_PHASE[name])
    gb_s = moved / ms / 1e6 if moved else 0.0
    return PhaseTiming(
        ms, launches if name == "verify" else None, moved, gb_s, share=gb_s / read_gb_s
    )
