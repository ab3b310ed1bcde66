"""``qwen38 bench ui``: what the screen costs, with an engine that only keeps time."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.commands import bench_figures
from app.output_file import check_output
from app.report import FAILED, OK, say
from app.streams import write_data

if TYPE_CHECKING:
    from app.tui.bench.measure import Grown, Streamed

TOKENS_A_ROUND = 3


def bench_ui(
    tokens: Annotated[int, typer.Option(help="Length of each answer.", min=100)] = 2000,
    rate: Annotated[float, typer.Option(help="Tokens a second.", min=1.0, max=2000.0)] = 120.0,
    messages: Annotated[int, typer.Option(help="Length of the conversation.", min=2)] = 1000,
    file: bench_figures.File = None,
) -> int:
    """Measure what the screen costs; ends with 1 where a bar is missed."""
    if file is not None:
        check_output("--json", file)
    from app.tui.bench.answers import KINDS
    from app.tui.bench.measure import BARS, grow, stream
    from app.tui.bench.timed_engine import Pace
    from engine.machine.facts import machine_facts, now

    pace = Pace(TOKENS_A_ROUND, TOKENS_A_ROUND / rate)
    streamed: list[Streamed] = []
    for name, make in KINDS.items():
        say(f"{name}: {tokens} tokens, alone and on the screen")
        streamed.append(stream(name, make(tokens), pace))
    grown = grow(messages)
    is_met = grown.is_met and all(one.is_met for one in streamed)
    result: dict[str, Any] = {
        "at": now(),
        "machine": machine_facts("cpu"),
        "rate_tok_s": rate,
        "bars": BARS,
        "answers": [{**asdict(one), "ratio": one.ratio, "is_met": one.is_met} for one in streamed],
        "conversation": {**asdict(grown), "is_met": grown.is_met},
        "is_met": is_met,
    }
    write_data("\n".join(_table(streamed, grown, BARS)) + "\n")
    if file is not None:
        bench_figures.write_figures(file, result)
    return OK if is_met else FAILED


def _table(streamed: "list[Streamed]", grown: "Grown", bars: dict[str, float]) -> list[str]:
    lines = [
        "answer    tokens   alone tok/s   screen tok/s   ratio   lag p95   late p95   CPU   bars"
    ]
    lines += [
        f"{one.name:<8}{one.num_tokens:>8}{one.run_tok_s:>14.1f}{one.tui_tok_s:>15.1f}"
        f"{one.ratio:>8.3f}{one.lag_p95_ms:>7.1f} ms{one.late_p95_ms:>8.1f} ms{one.cpu_share:>6.0%}"
        f"   {_met(one.is_met)}"
        for one in streamed
    ]
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
    return [*lines, "", opened, wanted]


def _met(is_met: bool) -> str:
    return "met" if is_met else "MISSED"
