"""Compare two values of a switch inside one process: same weights, same rounds, alternated.

A model is drawn once. Both sides replay what plain decode chose and must choose it too; the pass
that proves this warms both. Then passes alternate, base first and candidate first in turn, and the
difference counts as resolved only where it exceeds what each side shows against itself.
"""

import hashlib
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import torch

from engine.bench.model import draw_model
from engine.bench.replay import Replay
from engine.bench.round import expect_context, expect_rows
from engine.bench.switches import Flip, Switch, relaunched, word
from engine.compute_path import ComputePath, choose_compute_path
from engine.errors import RequestError
from engine.model.config import config_of_shape
from engine.model.decoder import Model
from engine.profile import Profile, kv_format_of
from engine.settings.declared import Settings
from engine.turn.verify import Verifier
from engine.types import Progress

NUM_PASSES = 8
"""Timed passes of each side: even, so that they halve."""


@dataclass(frozen=True, slots=True)
class SideTiming:
    """One side, in milliseconds of a round.

    Attributes:
        value: of the switch.
        median_ms: of all rounds.
        low_ms: a tenth of them are faster.
        high_ms: a tenth of them are slower.
        spread_ms: what halves of the passes differ by (`spread_of_halves`).
        passes_ms: the median round of each pass.
    """

    value: str
    median_ms: float
    low_ms: float
    high_ms: float
    spread_ms: float
    passes_ms: tuple[float, ...]


@dataclass(slots=True)
class _Side:
    """A value of the switch, ready to run; ``passes`` holds the times of its rounds."""

    name: str
    value: bool
    path: ComputePath
    verifier: Verifier
    passes: list[list[float]]


def bench_ab(
    shape: str,
    profile: Profile,
    flip: Flip,
    *,
    device: str,
    num_rows: int,
    num_rounds: int,
    context_tokens: int,
    progress: Progress,
    settings: Settings,
) -> dict[str, Any]:
    """Compare both sides; returns everything that a reader must know, as JSON values.

    Args:
        shape: one of ``engine.model.config.SHAPES``.
        profile: its formats are drawn.
        flip: the switch and its values.
        device: "cpu" or "cuda".
        num_rows: rows of a round.
        num_rounds: rounds of a pass; each side runs 1 + ``NUM_PASSES`` passes.
        context_tokens: tokens before the rounds.
        progress: called with a sentence for each step.
        settings: which kernels run.

    Raises:
        RequestError: the shape, the rows or the context are not to be had, or the switch changes
            nothing here.
        MemoryPlanError: the model does not fit on the device.
    """
    config = config_of_shape(shape)
    expect_rows([num_rows])
    num_decoded = num_rows * num_rounds + 1
    expect_context(context_tokens, num_decoded, config)
    path = choose_compute_path(settings, device)
    if not path.is_packed:
        raise RequestError(
            f"'{flip.switch.name}' changes nothing here: {path.description}.",
            path.why_not or "It is for the kernels of a GPU.",
        )
    num_tokens = context_tokens + num_decoded
    bench = draw_model(
        shape, config, profile, path, device=device, num_tokens=num_tokens,
        smaller="--shape demo, or a smaller --context", progress=progress,
        kv=kv_format_of(profile, settings),
    )  # fmt: skip
    sides = [
        _side("base", flip.switch, flip.base, bench.model, path),
        _side("candidate", flip.switch, flip.candidate, bench.model, path),
    ]
    progress(f"reading {context_tokens} tokens")
    replay = Replay(bench.model, context_tokens, num_tokens)
    progress("decoding plainly what the rounds will replay")
    replay.decode(sides[0].verifier)
    progress("proving and warming both sides")
    proofs = [_prove(replay, one, num_rows, num_rounds) for one in sides]
    fault = _difference(proofs, keeps_bits=flip.switch.keeps_bits)
    if not fault:
        progress(f"{NUM_PASSES} passes of {num_rounds} rounds, alternated")
        fault = _time(replay, sides, num_rows, num_rounds)
    return bench.facts | {
        "path": sides[0].path.description,
        "candidate_path": sides[1].path.description,
        "switch": flip.switch.name,
        "rows": num_rows,
        "rounds": num_rounds,
        "passes": NUM_PASSES,
        "context_tokens": context_tokens,
        "keeps_bits": flip.switch.keeps_bits,
        "equal_tokens": [one.tokens for one in proofs[0]] == [one.tokens for one in proofs[1]],
        "equal_logits": proofs[0] == proofs[1],
        "fault": fault,
        **({} if fault else judge(*(_timing(one) for one in sides))),
    }


def judge(base: SideTiming, candidate: SideTiming) -> dict[str, Any]:
    """Say whether two sides differ by more than each differs from itself.

    Returns:
        JSON values: both sides, ``difference_ms`` (candidate less base), ``spread_ms``, and
        ``resolved``.
    """
    difference_ms = candidate.median_ms - base.median_ms
    spread_ms = max(base.spread_ms, candidate.spread_ms)
    return {
        "base": base,
        "candidate": candidate,
        "difference_ms": difference_ms,
        "spread_ms": spread_ms,
        "resolved": abs(difference_ms) > spread_ms,
    }


def spread_of_halves(passes: Sequence[Sequence[float]]) -> float:
    """The largest difference between the medians of two halves, over all ways to halve passes.

    Args:
        passes: times of each pass; an even number of passes.
    """
    every = range(len(passes))
    found = 0.0
    for half in combinations(every, len(passes) // 2):
        medians = [
            statistics.median(ms for index in part for ms in passes[index])
            for part in (half, [index for index in every if index not in half])
        ]
        found = max(found, abs(medians[0] - medians[1]))
    return found


def _side(name: str, switch: Switch, value: bool, model: Model, path: ComputePath) -> _Side:
    assert path.launching is not None
    launching = switch.apply(path.launching, value)
    own = replace(path, launching=launching)
    return _Side(name, value, own, own.new_verifier(relaunched(model, launching)), [])


@dataclass(frozen=True, slots=True)
class _Proof:
    """A round: the tokens that it chose, and the sha256 of the logits of each."""

    tokens: tuple[int, ...]
    logits: tuple[str, ...]


def _prove(replay: Replay, side: _Side, num_rows: int, num_rounds: int) -> list[_Proof]:
    """Run a pass; ends with the first round that disagrees with plain decode."""
    found: list[_Proof] = []
    for one in replay.rounds(side.verifier, num_rows, num_rounds, keeps_logits=True):
        assert one.verified.logits is not None
        digests = tuple(map(_digest, one.verified.logits))
        found.append(_Proof(tuple(one.verified.chosen), digests))
        if not one.agrees:
            break
    return found


def _digest(logits: torch.Tensor) -> str:
    return hashlib.sha256(logits.cpu().numpy().tobytes()).hexdigest()


def _difference(proofs: Sequence[Sequence[_Proof]], *, keeps_bits: bool) -> str:
    """The first round in which the sides differ, in words; empty when there is none."""
    for index, (base, candidate) in enumerate(zip(*proofs, strict=False)):
        if base.tokens != candidate.tokens:
            return f"Round {index} chose {base.tokens} in base and {candidate.tokens} in candidate."
        if keeps_bits and base.logits != candidate.logits:
            row = next(
                row
                for row, pair in enumerate(zip(base.logits, candidate.logits, strict=True))
                if pair[0] != pair[1]
            )
            return f"Round {index} chose the same tokens from other logits, first in row {row}."
    return ""


def _time(replay: Replay, sides: Sequence[_Side], num_rows: int, num_rounds: int) -> str:
    """Fill the sides' passes; returns the first round that chose wrong, in words, else nothing."""
    for number in range(NUM_PASSES):
        for side in sides if number % 2 == 0 else reversed(sides):
            times: list[float] = []
            for index, one in enumerate(replay.rounds(side.verifier, num_rows, num_rounds)):
                if not one.agrees:
                    return (
                        f"Round {index} of pass {number} chose {one.verified.chosen} in "
                        f"{side.name}, and plain decode chose {list(one.truth)}."
                    )
                times.append(sum(one.ms.values()))
            side.passes.append(times)
    return ""


def _timing(side: _Side) -> SideTiming:
    ordered = sorted(ms for one in side.passes for ms in one)
    tenth = len(ordered) // 10
    return SideTiming(
        value=word(side.value),
        median_ms=statistics.median(ordered),
        low_ms=ordered[tenth],
        high_ms=ordered[-1 - tenth],
        spread_ms=spread_of_halves(side.passes),
        passes_ms=tuple(statistics.median(one) for one in side.passes),
    )
