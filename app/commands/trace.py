"""``qwen38 trace``: where the time of a session went, and what changed between two of them."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from app.commands import options
from app.commands.sessions import store_of
from app.report import OK, say
from app.sessions.store import SessionError
from app.streams import write_data
from app.trace.export import HOW_TO_OPEN, check_target, export
from app.trace.read import all_turns
from app.trace.summary import Figures, Summary
from app.trace.table import COMPARED, comparison_text, summary_text
from app.trace.traced import TraceError
from engine.errors import RequestError
from engine.settings.environment import expanded
from engine.settings.load import load_settings

Given = Annotated[str, typer.Argument(help="A trace, or the id of a session.", metavar="FILE")]


def trace(
    file: Given,
    other: Annotated[
        str | None, typer.Argument(help="Another one to compare with.", metavar="OTHER")
    ] = None,
    *,
    as_json: options.Json = False,
    to: Annotated[
        Path | None,
        typer.Option("--export", help="Write it for Perfetto, .json or .json.gz.", metavar="FILE"),
    ] = None,
) -> int:
    """Show where the time of a session went.

    FILE is what --trace or /trace wrote, a session's own recording, or a session's id.
    """
    if to is not None:
        if other is not None:
            raise RequestError("--export takes one trace.", "Leave OTHER out.")
        if as_json:
            raise RequestError("--export writes no figures to stdout.", "Leave --json out.")
        check_target("--export", to)
    path = find(file)
    if to is not None:
        export(all_turns(path, say), to, replace=True)
        say(f"Written to {to.absolute()}. {HOW_TO_OPEN}")
        return OK
    first = summarise(path)
    second = summarise(find(other)) if other is not None else None
    if as_json:
        write_data(json.dumps(_as_json(first, second)) + "\n")
    else:
        write_data(comparison_text(first, second) if second else summary_text(first))
    return OK


def find(wanted: str) -> Path:
    """The file that a person means: its name, or that of a session with a recording.

    Raises:
        TraceError: there is neither.
    """
    path = expanded(wanted)
    if path.exists() or "/" in wanted or path.suffix:
        return path
    settings, _ = load_settings()
    try:
        found = store_of(settings).open(wanted, write=False).trace_path
    except SessionError:
        raise TraceError(
            f"{wanted} is neither a file nor a session.", "See 'qwen38 sessions list'."
        ) from None
    if not found.exists():
        raise TraceError(f"The session {found.stem} has no trace.", "It was not recorded.")
    return found


def summarise(path: Path) -> Summary:
    """The figures of a trace; damaged lines are told.

    Raises:
        TraceError: it does not read, or holds no turn.
    """
    summary = Summary()
    for turn in all_turns(path, say):
        summary.add(turn)
    return summary


def _as_json(first: Summary, second: Summary | None) -> dict[str, Any]:
    if second is None:
        return _summary_json(first)
    change: dict[str, float | None] = {}
    for row in COMPARED:
        a, b = row.value(first.total), row.value(second.total)
        change[row.label] = b / a - 1 if a else None
    return {"a": _summary_json(first), "b": _summary_json(second), "change": change}


def _summary_json(summary: Summary) -> dict[str, Any]:
    turns = [
        {**_figures_json(one), "end": end}
        for one, end in zip(summary.turns, summary.ends, strict=True)
    ]
    return {
        "at": summary.at,
        "facts": summary.facts,
        "turns": turns,
        "total": _figures_json(summary.total),
    }


def _figures_json(one: Figures) -> dict[str, Any]:
    return {
        **asdict(one),
        "share_accepted": one.share_accepted,
        "accepted_a_round": one.accepted_a_round,
        "share_of_read": one.share_of_read,
        "phase_share": {name: one.share(ms) for name, ms in one.phase_ms.items()},
    }
