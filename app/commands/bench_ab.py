"""``qwen38 bench ab``: one switch, two values, one process, the same rounds."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated, Any

import typer

from app.commands import bench_figures, options
from app.report import FAILED, OK, say
from engine.sizes import counted


def bench_ab(
    switch: Annotated[
        str,
        typer.Option(
            help="The candidate: kernels.graphs, kernels.overlap or kernels.commit_in_verify, on "
            "or off; 'qwen38 settings NAME' says what it does.",
            metavar="NAME=VALUE",
        ),
    ],
    shape: bench_figures.Shape = "demo",
    profile: bench_figures.Profile = "fp8",
    rows: Annotated[int, typer.Option(help="Rows of a round, 1 to 32.", metavar="N")] = 1,
    rounds: Annotated[int, typer.Option(help="Rounds of a pass.", metavar="N", min=1)] = 10,
    context: Annotated[
        int, typer.Option(help="Tokens before the rounds.", metavar="N", min=1)
    ] = 256,
    device: options.Device = None,
    file: bench_figures.File = None,
) -> int:
    """Compare a switch's value with its present one, in one process.

    Rounds of random weights are replayed under both values in turn, pass by pass, and the table has
    the median milliseconds of a round of each. A difference below the spread of the passes is told
    as not resolved.

    Exit code 1 when the two choose other tokens, or from other logits where they must be equal.
    """
    settings, chosen = bench_figures.prepare(profile, device, file)
    from engine.bench import ab as bench
    from engine.bench.switches import parse_switch
    from engine.machine.device import choose_device

    result = bench.bench_ab(
        shape,
        chosen,
        parse_switch(switch, settings),
        device=choose_device(settings.model.device),
        num_rows=rows,
        num_rounds=rounds,
        context_tokens=context,
        progress=say,
        settings=settings,
    )
    for name in ("base", "candidate"):
        if name in result:
            result[name] = asdict(result[name])
    bench_figures.show(result, _table(result), file)
    return FAILED if result["fault"] else OK


def _table(result: dict[str, Any]) -> Iterator[str]:
    rows = counted(result["rows"], "row")
    rounds = counted(result["rounds"], "round")
    passes = f"{result['passes']} passes of {rounds} of {rows}"
    what = f"{result['switch']}, {passes}, {result['context_tokens']} before"
    yield from bench_figures.heading(result, what)
    if result["fault"]:
        yield f"The two differ: {result['fault']}"
        return
    columns = ("ms", "10 %", "90 %", "spread")
    yield f"{'side':<11}{'value':<7}" + "".join(f"{one:>10}" for one in columns)
    for name in ("base", "candidate"):
        one = result[name]
        values = (one["median_ms"], one["low_ms"], one["high_ms"], one["spread_ms"])
        yield f"{name:<11}{one['value']:<7}" + "".join(f"{value:>10.4f}" for value in values)
    yield ""
    logits = "equal logits, bit for bit" if result["equal_logits"] else "other logits"
    yield f"tokens are equal; {logits}"
    yield _verdict(result)


def _verdict(result: dict[str, Any]) -> str:
    difference, spread = result["difference_ms"], result["spread_ms"]
    share = difference / result["base"]["median_ms"]
    figures = f"{difference:+.4f} ms ({share:+.2%}) against a spread of {spread:.4f} ms"
    if not result["resolved"]:
        return f"not resolved: {figures}"
    return f"resolved: the candidate is {'faster' if difference < 0 else 'slower'}: {figures}"
