"""``qwen38 bench ui``: what the screen costs, beside an engine that keeps time or computes."""

import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.commands import bench_figures, options
from app.known_profiles import known_profiles
from app.opening import plan
from app.output_file import check_output
from app.report import FAILED, OK, say
from app.streams import LoadLine, write_lines
from engine.errors import RequestError, nearest
from engine.settings.load import load_settings
from engine.types import ChatEngine, EngineInfo

if TYPE_CHECKING:
    from app.tui.bench.measure import Grown, Streamed

ENGINES = ("timed", "model", "random")
MOST_MESSAGES = 100_000
"""Each is a widget on the screen and a line in memory."""

RATE = 120.0
TOKENS_A_ROUND = 3
PROMPT = "tell me a story"
WARM_UP_TOKENS = 16
"""Answered before anything is timed: graphs are captured, and a GPU raises its clocks."""


def bench_ui(
    *,
    tokens: Annotated[int, typer.Option(help="Length of each answer.", metavar="N", min=32)] = 2000,
    rate: Annotated[
        float | None,
        typer.Option(
            help="Tokens a second of the timed engine; 120.", metavar="N", min=1.0, max=2000.0
        ),
    ] = None,
    messages: Annotated[
        int,
        typer.Option(help="Length of the conversation.", metavar="N", min=2, max=MOST_MESSAGES),
    ] = 1000,
    engine: Annotated[
        str,
        typer.Option(
            help="timed only keeps time; model is what chat opens; random has random weights.",
            metavar="NAME",
        ),
    ] = "timed",
    passes: Annotated[
        int,
        typer.Option(
            help="Pairs of answers; which of the two is first alternates.", metavar="N", min=1
        ),
    ] = 1,
    prompt: Annotated[str, typer.Option(help="What is asked.", metavar="TEXT")] = PROMPT,
    seed: Annotated[int, typer.Option(help="Seed of the draws.", metavar="N", min=0)] = 0,
    shape: Annotated[
        str | None, typer.Option(help="Of random weights: 27b or demo; 27b.", metavar="NAME")
    ] = None,
    profile: options.Profile = None,
    model: options.Model = None,
    device: options.Device = None,
    file: bench_figures.File = None,
    sets: options.Sets = None,
) -> int:
    """Measure what the screen costs; ends with 1 where a bar is missed."""
    if engine not in ENGINES:
        known = ", ".join(ENGINES)
        raise RequestError(f"There is no engine '{engine}'.", nearest(engine, ENGINES) or known)
    if file is not None:
        check_output("--json", file)
    own = {
        "--model": model, "--profile": profile, "--device": device, "--shape": shape,
        "--rate": rate,
    }  # fmt: skip
    _expect_used(engine, {name for name, value in own.items() if value is not None})
    rate = RATE if rate is None else rate
    given = options.as_settings(
        {"model.dir": model, "model.profile": profile, "model.device": device}, sets
    )
    asked = {**given, "sampling.seed": seed, "sampling.max_tokens": tokens}
    load_settings(asked)  # a value that is refused is so before anything is made
    from app.tui.bench.measure import BARS, grow
    from engine.machine.facts import machine_facts, now

    if engine == "timed":
        opened = _timed(tokens, rate)
    elif engine == "model":
        opened = _model(given)
    else:
        opened = _random(given, shape or "27b", tokens)
    with opened as engines:
        streamed, info = _stream(engines, prompt, asked, passes, computes=engine != "timed")
    facts = {"model": info.model, "profile": info.profile, "device": info.device}
    grown = grow(messages)
    is_met = grown.is_met and all(one.is_met for one in streamed)
    result: dict[str, Any] = {
        "at": now(),
        "machine": machine_facts(info.device if engine != "timed" else "cpu"),
        "engine": {"kind": engine, **facts},
        "rate_tok_s": rate if engine == "timed" else None,
        "bars": BARS,
        "answers": [one.as_json() for one in streamed],
        "conversation": {**asdict(grown), "is_met": grown.is_met},
        "is_met": is_met,
    }
    write_lines(_table(streamed, grown, BARS))
    if file is not None:
        bench_figures.write_figures(file, result)
    return OK if is_met else FAILED


Named = Iterator[tuple[str, ChatEngine]]

_UNUSED = {
    "timed": {"--model", "--profile", "--device", "--shape"},
    "model": {"--shape", "--rate"},
    "random": {"--model", "--rate"},
}
"""Options that say nothing to an engine."""


def _expect_used(engine: str, given: set[str]) -> None:
    """Refuse options that would change nothing."""
    for name in sorted(given & _UNUSED[engine]):
        used = " or ".join(one for one in ENGINES if name not in _UNUSED[one])
        raise RequestError(
            f"{name} says nothing to the engine '{engine}'.", f"Write --engine {used} beside it."
        )


def _stream(
    engines: Named, prompt: str, asked: dict[str, object], passes: int, *, computes: bool
) -> "tuple[list[Streamed], EngineInfo]":
    """Have each engine answer alone and on the screen; what was measured, and who answered last."""
    from app.tui.bench.measure import stream

    streamed: list[Streamed] = []
    infos: list[EngineInfo] = []
    for name, one in engines:
        if computes:
            _warm_up(one, prompt, asked)
        say(f"{name}: at most {asked['sampling.max_tokens']} tokens, alone and on the screen")
        streamed.append(stream(name, one, passes, prompt, asked))
        say(f"{name}: {streamed[-1].ratio:.3f} of the rate without the screen")
        infos.append(one.info)
    return streamed, infos[-1]


@contextmanager
def _timed(tokens: int, rate: float) -> Generator[Named]:
    """An engine for each kind of answer, which computes nothing."""
    from app.tui.bench.answers import KINDS
    from app.tui.bench.timed_engine import Pace, TimedEngine

    pace = Pace(TOKENS_A_ROUND, TOKENS_A_ROUND / rate)
    yield ((name, TimedEngine(make(tokens), pace)) for name, make in KINDS.items())


@contextmanager
def _model(given: dict[str, object]) -> Generator[Named]:
    """What ``qwen38 chat`` would open."""
    progress = LoadLine()
    try:
        engine = plan(given).open(progress, threading.Event())
    finally:
        progress.clear()
    try:
        yield iter([(engine.info.profile, engine)])
    finally:
        engine.close()


@contextmanager
def _random(given: dict[str, object], shape: str, tokens: int) -> Generator[Named]:
    """One model of random weights, which says each kind of answer in its own rounds."""
    from app.tui.bench.answers import KINDS
    from app.tui.bench.borrowed import Worded
    from app.tui.bench.timed_engine import tokens_of
    from engine.bench.random_engine import random_engine

    settings, _ = load_settings(given)
    name = settings.model.profile or "nvfp4"
    profile = known_profiles(settings, name)[name]
    engine, _ = random_engine(shape, profile, settings, say)
    try:
        yield ((name, Worded(engine, tokens_of(make(tokens)))) for name, make in KINDS.items())
    finally:
        engine.close()


def _warm_up(engine: ChatEngine, prompt: str, asked: dict[str, object]) -> None:
    from app.tui.bench.stage import answer_alone

    answer_alone(engine, prompt, {**asked, "sampling.max_tokens": WARM_UP_TOKENS})


def _table(streamed: "list[Streamed]", grown: "Grown", bars: dict[str, float]) -> list[str]:
    columns = (
        "tokens",
        "alone tok/s",
        "screen tok/s",
        "ratio",
        "lag p95",
        "host p95",
        "alone",
        "CPU",
    )
    lines = ["answer" + "".join(f"{one:>13}" for one in columns) + "   bars"]
    for one in streamed:
        values = (
            str(one.num_tokens), f"{one.run_tok_s:.1f}", f"{one.tui_tok_s:.1f}", f"{one.ratio:.3f}",
            f"{one.lag_p95_ms:.1f} ms", f"{one.host_p95_ms:.2f} ms",
            f"{one.run_host_p95_ms:.2f} ms", f"{one.cpu_share:.0%}",
        )  # fmt: skip
        figures = "".join(f"{value:>13}" for value in values)
        lines.append(f"{one.name:<6}{figures}   {_met(one.is_met)}")
    opened = (
        f"{grown.num_messages} messages: opened in {grown.open_ms:.0f} ms, one more in "
        f"{grown.append_ms:.1f} ms, another size in {grown.resize_ms:.0f} ms   "
        f"{_met(grown.is_met)}"
    )
    wanted = (
        f"bars: ratio {bars['ratio']}, lag {bars['lag_p95_ms']:.0f} ms, open "
        f"{bars['open_ms']:.0f} ms, append {bars['append_ms']:.0f} ms, resize "
        f"{bars['resize_ms']:.0f} ms"
    )
    return [*lines, *_passes(streamed), "", opened, wanted]


def _passes(streamed: "list[Streamed]") -> list[str]:
    """What came out pass by pass, where there are several."""
    return [
        f"{one.name:<8} pass by pass: " + ", ".join(f"{a:.1f} / {s:.1f}" for a, s in one.pairs)
        for one in streamed
        if len(one.pairs) > 1
    ]


def _met(is_met: bool) -> str:
    return "met" if is_met else "MISSED"
