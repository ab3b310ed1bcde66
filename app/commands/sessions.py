"""``qwen38 sessions``: the conversations on disk."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from app.commands import options
from app.report import OK, say
from app.sessions.store import SessionStore, SessionSummary
from app.streams import write_data
from app.visible import visible
from engine.errors import RequestError, did_you_mean
from engine.settings.declared import Settings
from engine.settings.load import load_settings

Id = Annotated[str, typer.Argument(help="The id, or the beginning of it.", metavar="ID")]
FORMATS = ("markdown", "json")


def store_of(settings: Settings) -> SessionStore:
    """Where the settings keep conversations and drafts."""
    return SessionStore(
        settings.data_dir / "sessions", settings.state_dir / "drafts", keep=settings.chat.save
    )


def list_sessions(*, as_json: options.Json = False) -> int:
    """List the conversations, last one first."""
    store = _store()
    found, unreadable = store.survey()
    if as_json:
        write_data(json.dumps([asdict(one) for one in found], default=str) + "\n")
    elif found:
        write_data("\n".join(map(summary_line, found)) + "\n")
    elif not unreadable:
        say(f"There are no conversations in {store.folder} yet.")
    if unreadable:
        say(unreadable)
    return OK


def summary_line(one: SessionSummary) -> str:
    """One conversation as one line; times in UTC."""
    when = visible(one.updated[:16].replace("T", " "))
    return f"{visible(one.id)}  {when}  {one.num_messages:>4}  {one.title}"


def show(session_id: Id) -> int:
    """Show a conversation as Markdown."""
    from app.sessions.export import as_markdown

    session = _store().open(session_id, write=False)
    for warning in session.warnings:
        say(warning)
    write_data(as_markdown(session))
    return OK


def export(
    session_id: Id,
    file: Annotated[
        Path | None,
        typer.Argument(help="Where to, .md or .json; stdout when left out.", metavar="FILE"),
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option(
            "--format", help="markdown or json; FILE's ending when left out.", metavar="NAME"
        ),
    ] = None,
    *,
    force: Annotated[bool, typer.Option("--force", help="Replace FILE.")] = False,
) -> int:
    """Write a conversation as Markdown or JSON."""
    from app.sessions import export as exports

    if kind is not None and kind not in FORMATS:
        raise RequestError(
            f"--format is '{kind}', expected markdown or json.", did_you_mean(kind, FORMATS)
        )
    session = _store().open(session_id, write=False)
    if file is None:
        write_data(exports.as_json(session) if kind == "json" else exports.as_markdown(session))
    else:
        say(f"Written to {exports.export_to(session, file, kind or '', replace=force)}.")
    for warning in session.warnings:
        say(warning)
    return OK


def delete(
    session_ids: Annotated[
        list[str], typer.Argument(help="Ids, or their first 8 characters or more.", metavar="ID")
    ],
) -> int:
    """Delete conversations for good: all that are named, or none."""
    for one in _store().delete(session_ids):
        say(f"Deleted {one}.")
    return OK


def _store() -> SessionStore:
    settings, _ = load_settings()
    return store_of(settings)
