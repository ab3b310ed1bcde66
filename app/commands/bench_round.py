"""``qwen38 bench round``: how fast a round is, against this machine's own read bandwidth."""

from dataclasses import asdict
from typing import Annotated, Any

import typer

from app.commands import bench_figures, options
from app.report import OK, say
from engine.sizes import counted


def bench_round(
    shape: bench_figures.Shape = "demo",
    profile: bench_figures.Profile = "fp8",
    rows: Annotated[
        str, typer.Option(help="Rows of a round, such as 1,8,16.", metavar="N,...")
    ] = "1",
    context: Annotated[
        int, typer.Option(help="Tokens before the rounds.", metavar="N", min=1)
    ] = 256,
    repetitions: Annotated[
        int, typer.Option(help="Rounds that are timed.", metavar="N", min=1)
    ] = 20,
    kernels: Annotated[bool, typer.Option("--kernels", help="Tell a round by kernel.")] = False,
    device: options.Device = None,
    file: bench_figures.File = None,
) -> int:
    """Time decode rounds of a model with random weights."""
    numbers = bench_figures.parse_numbers("--rows", rows)
    settings, chosen = bench_figures.prepare(profile, device, file)
    from engine.bench import round as bench
    from engine.machine.device import choose_device

    result = bench.bench_round(
        shape,
        chosen,
        numbers,
        device=choose_device(settings.model.device),
        context_tokens=context,
        num_repetitions=repetitions,
        progress=say,
        settings=settings,
    )
    result["rounds"] = [_as_json(one) for one in result["rounds"]]
    result["drafts"] = asdict(result["drafts"]) if result["drafts"] is not None else None
    told = _kernels(result["rounds"], result["drafts"]) if kernels else []
    bench_figures.show(result, [*_table(result), *told], file)
    return OK


def _as_json(timing: Any) -> dict[str, Any]:  # noqa: ANN401  naming its type would load torch
    values = asdict(timing)
    for one in (values, *values["phases"].values()):
        one["bytes"] = one.pop("num_bytes")
    return values


def _table(result: dict[str, Any]) -> list[str]:
    before, repetitions = result["context_tokens"], result["repetitions"]
    rounds = f"{counted(repetitions, 'round')} each"
    lines = bench_figures.heading(result, f"{counted(before, 'token')} before, {rounds}")
    columns = ("launches", "ms", "best", "GB", "GB/s", "share")
    lines.append(f"rows  {'phase':<8}" + "".join(f"{one:>10}" for one in columns))
    for one in result["rounds"]:
        whole = {"ms": one["round_ms"], "launches": one["launches"], "gb_s": one["gb_s"]}
        whole |= {"bytes": sum(one["bytes"].values()), "share": one["share"]}
        best = f"{one['best_ms']:>10.3f}"
        lines.append(f"{one['rows']:>4}  {'round':<8}{_figures(whole, best)}")
        for name, phase in one["phases"].items():
            lines.append(f"{'':<6}{name:<8}{_figures(phase, ' ' * 10)}".rstrip())
    tables = [lines, _parts(result["rounds"]), _shares(result["rounds"]), _drafts(result["drafts"])]
    return [line for table in tables if table for line in (*table, "")][:-1]


def _figures(one: dict[str, Any], best: str) -> str:
    launches = "" if one["launches"] is None else one["launches"]
    moved = ""
    if one["bytes"]:
        moved = f"{one['bytes'] / 1e9:>10.3f}{one['gb_s']:>10.1f}{one['share']:>10.1%}"
    return f"{launches:>10}{one['ms']:>10.3f}{best}{moved}"


def _parts(rounds: list[dict[str, Any]]) -> list[str]:
    """Where the bytes go."""
    names = [name for name in rounds[0]["bytes"] if any(one["bytes"][name] for one in rounds)]
    lines = ["rows  GB of" + "".join(f"{name:>10}" for name in names)]
    for one in rounds:
        figures = "".join(f"{one['bytes'][name] / 1e9:>10.3f}" for name in names)
        lines.append(f"{one['rows']:>4}       {figures}")
    return lines


def _shares(rounds: list[dict[str, Any]]) -> list[str]:
    """What of a round is not the GPU's, and what of the GPU's time no kernel uses."""
    looked_at = [one for one in rounds if one["host_share"] is not None]
    if not looked_at:
        return []
    return [
        "rows  host share  unforeseen  gaps between kernels",
        *(
            f"{one['rows']:>4}{_percent(one['host_share']):>12}"
            f"{_percent(one['unforeseen_share']):>12}{_percent(one['gap_share']):>22}"
            for one in looked_at
        ),
    ]


def _kernels(rounds: list[dict[str, Any]], drafts: dict[str, Any] | None) -> list[str]:
    """Where the GPU's time goes: what each kernel adds to the end of those before it."""
    tables = [(f"{one['rows']:>4}", one["kernels"]) for one in rounds if one["kernels"]]
    if not tables:
        return ["", "No kernel was seen: a CPU has none, or the driver lets nobody look."]
    if drafts is not None and drafts["kernels"] is not None:
        tables.append((f"{'MTP':>4}", drafts["kernels"]["places"]))
    columns = f"{'launches':>10}{'us each':>10}{'adds ms':>10}"
    lines: list[str] = []
    for first, places in tables:
        lines += ["", f"rows  {'kernel, and which it ends behind':<44}{columns}"]
        lines += [f"{first}  {_place(place)}" for place in places]
    return lines


def _place(place: dict[str, Any]) -> str:
    name = f"{place['name']}, {place['after']}" if place["after"] else place["name"]
    return f"{name:<44}{place['launches']:>10}{place['each_us']:>10.2f}{place['adds_ms']:>10.3f}"


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.1%}"


def _drafts(drafts: dict[str, Any] | None) -> list[str]:
    """Rounds that the checkpoint's own head drafted."""
    if drafts is None:
        return []
    columns = ("round ms", *(f"{name} ms" for name in drafts["ms"]), "ms a step", "tokens")
    values = (drafts["round_ms"], *drafts["ms"].values(), drafts["step_ms"], drafts["tokens"])
    return [
        f"MTP, {drafts['steps']} steps" + "".join(f"{one:>11}" for one in columns),
        f"{drafts['rows']:>4} rows   " + "".join(f"{one:>11.3f}" for one in values),
    ]
