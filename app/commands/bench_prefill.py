"""``qwen38 bench prefill``: how fast prompts are read, and how soon the first token stands."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated, Any

import typer

from app.commands import bench_figures, options
from app.report import OK, say
from engine.sizes import counted


def bench_prefill(
    shape: bench_figures.Shape = "demo",
    profile: bench_figures.Profile = "fp8",
    tokens: Annotated[
        str, typer.Option(help="Tokens of a prompt, such as 256,4096.", metavar="N,...")
    ] = "256",
    repetitions: Annotated[
        int, typer.Option(help="Prompts that are timed.", metavar="N", min=1)
    ] = 3,
    device: options.Device = None,
    file: bench_figures.File = None,
    sets: options.Sets = None,
) -> int:
    """Time the reading of prompts by a model with random weights."""
    lengths = bench_figures.parse_numbers("--tokens", tokens)
    settings, chosen = bench_figures.prepare(profile, device, file, sets)
    from engine.bench import prefill as bench
    from engine.machine.device import choose_device

    result = bench.bench_prefill(
        shape,
        chosen,
        lengths,
        device=choose_device(settings.model.device),
        num_repetitions=repetitions,
        progress=say,
        settings=settings,
    )
    result["prompts"] = [asdict(one) for one in result["prompts"]]
    bench_figures.show(result, _table(result), file)
    return OK


def _table(result: dict[str, Any]) -> Iterator[str]:
    chunk, repetitions = result["chunk_tokens"], result["repetitions"]
    prompts = f"{counted(repetitions, 'prompt')} each"
    yield from bench_figures.heading(result, f"chunks of {chunk} tokens, {prompts}")
    columns = ("tok/s", "ms", "best", "first ms", "TFLOP/s", "GB/s", "share")
    yield f"{'tokens':>7}" + "".join(f"{one:>10}" for one in columns)
    for one in result["prompts"]:
        times = "".join(f"{one[name]:>10.1f}" for name in ("ms", "best_ms", "first_token_ms"))
        rates = f"{one['tflop_s']:>10.3f}{one['gb_s']:>10.1f}{one['share']:>10.1%}"
        yield f"{one['tokens']:>7}{one['tok_s']:>10.1f}{times}{rates}"
    yield ""
    yield (
        f"ms: reading alone, {result['clock']}; first ms: with head and choice, "
        f"{result['first_token_clock']}."
    )
    yield "TFLOP/s: products of the layers. GB/s: their weights, read once a chunk."
