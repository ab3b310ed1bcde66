"""``qwen38 bench kernels``: kernels against this machine's own read bandwidth, and peers."""

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from app.commands import bench_figures, options
from app.output_file import check_output
from app.report import OK, say
from app.streams import write_lines
from engine.settings.load import load_settings
from engine.sizes import counted

HEADINGS = ("us", "10 %", "90 %", "MB", "GB/s", "share")


def bench_kernels(
    family: Annotated[
        list[str] | None,
        typer.Option(help="Only this family, such as linear; may be repeated.", metavar="NAME"),
    ] = None,
    rows: Annotated[
        str, typer.Option(help="Tokens of a call, such as 1,8.", metavar="N,...")
    ] = "1,8,16,32",
    shape: bench_figures.Shape = "27b",
    *,
    peers: Annotated[
        bool, typer.Option("--peers", help="Time what you would use instead as well.")
    ] = False,
    full_check: Annotated[
        bool, typer.Option("--full-check", help="Check all cases first, not only what is timed.")
    ] = False,
    device: options.Device = None,
    file: bench_figures.File = None,
) -> int:
    """Time kernels on cold weights; a red one is refused.

    Share is of the read bandwidth that is measured in the same run.
    """
    numbers = bench_figures.parse_numbers("--rows", rows)
    if file is not None:
        check_output("--json", file)
    settings, _ = load_settings(options.as_settings({"model.device": device}, None))
    from engine.bench import kernels as bench
    from engine.check.families import choose_families
    from engine.compute_path import ready_kernels
    from engine.machine.device import choose_device

    used = choose_device(settings.model.device)
    if said := ready_kernels(settings.kernels, used):
        say(said)
    result = bench.bench_kernels(
        choose_families(family),
        shape,
        numbers,
        device=used,
        with_peers=peers,
        full_check=full_check,
        progress=say,
    )
    write_lines(_table(result))
    if file is not None:
        bench_figures.write_figures(file, result)
    return OK


def _table(result: dict[str, Any]) -> Iterator[str]:
    yield from _heading(result)
    width = max(len(_name(one)) for one in result["problems"])
    columns = "".join(f"{one:>9}" for one in HEADINGS)
    yield f"{'family':<10}{'problem':<{width}}{'rows':>6}{columns}  bar"
    for one in result["problems"]:
        cold = "" if one["cold"] else " (warm)"
        figures = _figures(one["us"], one["low_us"], one["high_us"], one["bytes"], one["gb_s"])
        line = f"{one['family']:<10}{_name(one):<{width}}{one['rows']:>6}{figures}"
        yield f"{line}{one['share']:>9.1%}  {'; '.join(map(_bar, one['bars']))}{cold}".rstrip()
        for peer in (peer for peer in one["peers"] if "us" in peer):
            moved = peer["gb_s"] * peer["us"] * 1e3
            figures = _figures(peer["us"], peer["low_us"], peer["high_us"], moved, peer["gb_s"])
            name = f"{'':<10}{'  against ' + peer['name']:<{width}}{'':>6}"
            yield f"{name}{figures}  ours is {peer['speed_up']:.2f} x as fast"
    yield from _notes(result)


def _heading(result: dict[str, Any]) -> Iterator[str]:
    machine = result["machine"]
    threads = counted(machine["threads"], "thread")
    name = machine["gpu"] or f"cpu, {threads}, the torch path"
    driver = f", driver {machine['driver']}" if machine["driver"] else ""
    other = f", launched as on {machine['launches']}" if machine["launches"] else ""
    yield f"{result['shape']} on {name}{driver}{other}, torch {machine['torch']}, {result['date']}"
    launch = result["launch_us"]
    bare = "" if launch is None else f", an empty launch {launch:.2f} us"
    yield f"read bandwidth measured now: {result['read_gb_s']:.1f} GB/s{bare}"
    clocks = ", ".join(f"{name} {value}" for name, value in machine["clocks"].items())
    if clocks:
        yield f"clocks: {clocks}"
    for family, one in result["checks"].items():
        yield f"{family}: {one['proofs']} proofs green ({one['extent']})"
    yield ""


def _figures(us: float, low: float, high: float, num_bytes: float, gb_s: float) -> str:
    times = "".join(f"{one:>9.2f}" if one < 1e5 else f"{one:>9.0f}" for one in (us, low, high))
    return f"{times}{num_bytes / 1e6:>9.2f}{gb_s:>9.1f}"


def _name(problem: dict[str, Any]) -> str:
    return f"{problem['name']} {problem['format'] or ''}".strip() + "  "


def _bar(bar: dict[str, Any]) -> str:
    met = {True: "met", False: "MISSED", None: "not judged"}[bar["met"]]
    return f"{bar['bar']}{' on ' + bar['gpu'] if bar['gpu'] else ''}: {met}"


def _notes(result: dict[str, Any]) -> Iterator[str]:
    """What was not measured, and why, each once."""
    said = [f"{name} has nothing to time yet" for name in result["nothing_to_time"]]
    for one in result["problems"]:
        said += [peer.get("absent") or peer["note"] for peer in one["peers"]]
    lines = [f"{note}." for note in dict.fromkeys(said) if note]
    if any(not one["cold"] for one in result["problems"]):
        lines.append("(warm): its copies do not fill the cache.")
    if lines:
        yield from ("", *lines)
