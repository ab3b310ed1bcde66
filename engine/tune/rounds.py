"""Measure what rounds of a model cost here: verifies by rows and context, chain and tree; drafts.

Random weights of the model's sizes and formats cost what its own do, and need no download. What
plain decode chose is replayed, so that every timed round is proven; passes over all kinds of rounds
alternate their order, and the medians of the phase ``verify`` count, by the clock of turns.
"""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from engine.bench.drafts import time_drafts, tokens_for
from engine.bench.model import BenchModel, draw_model
from engine.bench.replay import Replay, Replayed
from engine.bench.round import expect_rows
from engine.compute_path import ComputePath, choose_threads
from engine.draft.price_table import PriceTable
from engine.draft.prices import MAX_STEPS
from engine.errors import RequestError
from engine.machine.facts import machine_facts, now, read_clocks
from engine.model.config import ModelConfig
from engine.profile import Profile
from engine.rehearsal import expect_own_launches
from engine.tune.user_prices import Served, prices_path, write_prices
from engine.turn.verify import Verifier
from engine.types import KvFormat, Progress
from engine.warm_up import compile_rounds


@dataclass(frozen=True, slots=True)
class Usual:
    """What is timed where nobody says what: rows, and positions held before the rounds."""

    rows: tuple[int, ...]
    contexts: tuple[int, ...]


USUAL = Usual((1, 2, 4, 8, 16, 24, 32), (1024, 8192, 32768))
"""Where a round's rows are computed together."""

WALKED = Usual((1, 4), (1024,))
"""Where they are walked one by one: more cost in proportion."""

CONTEXT_STEP = 1024
"""The last context is cut to a multiple of this where it may not."""

STEPS = (1, 3, MAX_STEPS)
"""Steps of the MTP head that are timed."""

NUM_PASSES = 6
"""Timed passes over all kinds of rounds: forth and back in turn."""

ROUNDS_A_PASS = 3

NUM_DRAFTS = 12
"""Drafted rounds that are timed."""

LEAST_TREE = 3
"""Rows of the smallest tree that branches."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What is measured.

    Attributes:
        name: of the model, for a reader.
        config: its sizes.
        profile: its formats.
        device: "cpu" or "cuda".
        contexts: positions held before the rounds, ascending.
        rows: of the rounds, ascending.
        command: that asks for it, for the table.
        kv: format of its keys and values.
        threads: of a CPU; 0 takes as many as a chat would.
    """

    name: str
    config: ModelConfig
    profile: Profile
    device: str
    contexts: tuple[int, ...]
    rows: tuple[int, ...]
    command: str
    kv: KvFormat = "bf16"
    threads: int = 0


@dataclass(frozen=True, slots=True)
class Measured:
    """A run: the table, what it stands in, and facts of model and machine as JSON values.

    ``path`` and ``backup`` are None where nothing was written, or nothing was there before.
    """

    table: PriceTable
    facts: dict[str, Any]
    path: Path | None = None
    backup: Path | None = None


@dataclass(frozen=True, slots=True)
class _Kind:
    """Rounds of so many rows, as a chain or as a tree."""

    rows: int
    branches: bool = False

    @property
    def num_committed(self) -> int:
        return self.rows // 2 + 1 if self.branches else self.rows


def contexts_of(config: ModelConfig, context_tokens: int, usual: Usual) -> tuple[int, ...]:
    """The usual contexts that a conversation of so many tokens may have, rounds behind them.

    Args:
        config: its longest conversation counts too.
        context_tokens: the person's longest conversation.
        usual: how many and how long.
    """
    most = min(context_tokens, config.max_position_embeddings) - _num_decoded(usual.rows)
    most = max(most, 1)
    longest = min(most - most % CONTEXT_STEP, usual.contexts[-1]) or most
    return (*(one for one in usual.contexts if one < longest), longest)


def measure_rounds(
    asked: Asked,
    path: ComputePath,
    data_dir: Path,
    *,
    dry_run: bool,
    progress: Progress,
) -> Measured:
    """Draw the model, time its rounds, and write their prices into the person's own table.

    Args:
        asked: what is measured.
        path: how the model runs.
        data_dir: folder of the sessions, beside which tables lie.
        dry_run: write nothing.
        progress: called with a sentence for each step.

    Raises:
        RequestError: a number of rows is not to be had, contexts and rows do not climb, or another
            GPU is rehearsed.
        MemoryPlanError: the model does not fit on the device.
        KernelError: a round chose other tokens than plain decode.
        OutputError: the table cannot be written.
    """
    expect_sound(asked)
    if not dry_run:
        expect_own_launches()
    if asked.device == "cuda" and not path.is_packed:
        raise RequestError(
            "There is nothing to price here: rounds run by the reference.", path.why_not
        )
    torch.set_num_threads(asked.threads or choose_threads(asked.config))
    most = asked.contexts[-1] + _num_decoded(asked.rows)
    bench = draw_model(
        asked.name, asked.config, asked.profile, path, device=asked.device, num_tokens=most,
        smaller="a shorter --context", progress=progress, num_conversations=2, kv=asked.kv,
    )  # fmt: skip
    measured = {
        "date": now(),
        **machine_facts(asked.device),
        "read_gb_s": round(bench.read_gb_s, 1),
    }
    if path.launching is not None and asked.device == "cuda":
        progress("compiling products")
        compile_rounds(bench.model, asked.rows)
    verifier = path.new_verifier(bench.model)
    table = _time(bench, verifier, asked, progress)
    measured |= read_clocks() if asked.device == "cuda" else {}
    table = replace(table, source=_source(measured, asked.command))
    facts = bench.facts | {"measured": measured, "prices": asdict(table)}
    if dry_run:
        return Measured(table, facts)
    file = prices_path(data_dir, path.capability)
    served = Served.of(asked.config, asked.profile.formats, path.capability, asked.kv)
    return Measured(table, facts, file, write_prices(file, measured, served, table))


def expect_sound(asked: Asked) -> None:
    """Refuse rounds that there are not.

    Raises:
        RequestError: a number of rows or a context is not to be had, or they do not climb.
    """
    expect_rows(asked.rows)
    for name, values in (("--rows", asked.rows), ("--context", asked.contexts)):
        if list(values) != sorted(set(values)):
            shown = ", ".join(map(str, values))
            raise RequestError(f"{name} is {shown}, expected numbers that ascend.")
    longest = asked.config.max_position_embeddings - _num_decoded(asked.rows)
    if not 1 <= asked.contexts[0] <= asked.contexts[-1] <= longest:
        raise RequestError(
            f"--context is {', '.join(map(str, asked.contexts))}, expected 1 to {longest:,}: the "
            "rounds follow behind it."
        )


def _num_decoded(rows: Sequence[int]) -> int:
    """Tokens of plain decode that one pass replays, or that drafted rounds are held against."""
    return max(max(rows) * ROUNDS_A_PASS + 1, *(tokens_for(NUM_DRAFTS, one) for one in STEPS))


def _time(bench: BenchModel, verifier: Verifier, asked: Asked, progress: Progress) -> PriceTable:
    kinds = [*map(_Kind, asked.rows)]
    kinds += [_Kind(one, branches=True) for one in asked.rows if one >= LEAST_TREE]
    chains: list[tuple[float, ...]] = []
    trees: list[tuple[float, ...]] = []
    drafts: dict[int, float] = {}
    for context_tokens in asked.contexts:
        progress(f"reading {context_tokens:,} tokens")
        num_decoded = _num_decoded(asked.rows)
        replay = Replay(bench.model, context_tokens, context_tokens + num_decoded)
        replay.decode(verifier)
        progress(f"rounds of {', '.join(map(str, asked.rows))} rows behind {context_tokens:,}")
        ms = _time_kinds(replay, verifier, kinds)
        chains.append(tuple(ms[_Kind(one)] for one in asked.rows))
        trees.append(tuple(ms.get(_Kind(one, branches=True), ms[_Kind(one)]) for one in asked.rows))
        if not drafts and bench.model.has_mtp:
            progress("drafts of the MTP head")
            drafts = _time_steps(bench, verifier, context_tokens, replay.truth)
    return PriceTable(
        format=asked.profile.formats.mlp,
        rows=asked.rows,
        context_tokens=asked.contexts,
        chain_ms=tuple(chains),
        steps=tuple(drafts),
        draft_ms=tuple(drafts.values()),
        tree_ms=tuple(trees),
    )


def _time_kinds(replay: Replay, verifier: Verifier, kinds: Sequence[_Kind]) -> dict[_Kind, float]:
    """Median milliseconds of the phase ``verify`` of each kind of round."""
    timed: dict[_Kind, list[float]] = {one: [] for one in kinds}
    for number in range(NUM_PASSES + 1):
        for kind in kinds if number % 2 else reversed(kinds):
            for one in _rounds(replay, verifier, kind):
                if number:  # the first pass captures graphs, and warms up
                    timed[kind].append(one.ms["verify"])
    return {kind: round(statistics.median(ms), 4) for kind, ms in timed.items()}


def _rounds(replay: Replay, verifier: Verifier, kind: _Kind) -> Iterator[Replayed]:
    run = replay.tree_rounds if kind.branches else replay.rounds
    for one in run(verifier, kind.rows, ROUNDS_A_PASS):
        yield one.proven(f"A round of {kind.rows} rows")


def _time_steps(
    bench: BenchModel, verifier: Verifier, context_tokens: int, truth: Sequence[int]
) -> dict[int, float]:
    """Median milliseconds of the phase ``draft`` by steps of the head, rows of the round before.

    A random head is mostly wrong, so that one row a round is read before its steps.
    """
    found: dict[int, float] = {}
    for num_steps in STEPS:
        timing = time_drafts(
            bench.model, verifier, context_tokens, truth, NUM_DRAFTS, num_steps=num_steps
        )
        assert timing is not None
        found[num_steps] = round(timing.ms["draft"], 4)
    return found


def _source(measured: dict[str, Any], command: str) -> str:
    """Where, when and how, for who reads the table."""
    parts = [str(measured["gpu"] or f"CPU ({measured['cpu']}, {measured['threads']} threads)")]
    parts += [f"driver {measured['driver']}"] if measured.get("driver") else []
    parts += [f"{measured['sm_mhz']} MHz"] if measured.get("sm_mhz") else []
    return ", ".join([*parts, str(measured["date"])[:10], command])
