"""A session as a document: Markdown for people, JSON for programs."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from app.output_file import whole_file
from app.sessions.entries import MessageEntry
from app.sessions.session import Session
from app.sessions.store import SessionError
from engine.errors import how_to_write
from engine.settings.environment import expanded

ENDINGS = {".md": "markdown", ".json": "json"}
"""Endings of files, and the format that each stands for."""

NAMES = {"user": "You", "assistant": "Assistant", "system": "System"}


def export_to(session: Session, path: Path, kind: str = "", *, replace: bool = False) -> Path:
    """Write the session to a file; returns the full path.

    Args:
        session: what is written.
        path: where to; anywhere but among the sessions themselves.
        kind: ``markdown`` or ``json``; empty to go by the ending of ``path``.
        replace: whether a file that is there may be replaced.

    Raises:
        SessionError: the ending says no format, the file exists already (unless ``replace``), lies
            in the folder of the sessions, or cannot be written.
    """
    kind = kind or ENDINGS.get(path.suffix.lower(), "")
    if not kind:
        raise SessionError(
            f"'{path.name}' does not say in which format.", "End the name in .md or .json."
        )
    path, folder = expanded(path), session.path.parent
    if path.resolve().is_relative_to(folder.resolve()):
        raise SessionError(
            f"{path} lies in {folder}, where the conversations are kept.", "Give another folder."
        )
    text = as_json(session) if kind == "json" else as_markdown(session)
    data = text.encode("utf-8", "surrogatepass")
    try:
        with whole_file(path, replace=replace and path.is_file()) as file:
            file.write(data)
    except FileExistsError:
        raise SessionError(
            f"{path} exists already.",
            "Give another name, or replace it with 'qwen38 sessions export ID FILE --force'."
            if path.is_file()
            else "It is no plain file: give another name.",
        ) from None
    except OSError as problem:
        raise SessionError(
            f"{path} cannot be written: {problem.strerror}.", how_to_write(problem)
        ) from None
    session.exported_leaf = session.leaf
    return path.absolute()


def as_markdown(session: Session) -> str:
    """The current branch, message texts as they are."""
    lines = [f"# {session.title}", ""]
    lines += [f"{session.model} · profile {session.profile} · {session.created}", ""]
    if session.system:
        lines += ["## System", "", session.system, ""]
    for entry in session.path_messages():
        lines += _markdown_of(entry)
    return "\n".join(lines)


def as_json(session: Session) -> str:
    """Every message of every branch with its record; ``path`` lists the current branch's ids."""
    data: dict[str, Any] = {
        "id": session.id,
        "title": session.title,
        "created": session.created,
        "updated": session.updated,
        "model": session.model,
        "profile": session.profile,
        "system": session.system,
        "path": [one.id for one in session.path_messages()],
        "messages": [_json_of(one) for one in session.messages.values()],
    }
    return json.dumps(data, ensure_ascii=False, indent=1) + "\n"


def _markdown_of(entry: MessageEntry) -> list[str]:
    lines = [f"## {NAMES[entry.role]}", ""]
    if entry.reasoning:
        quoted = "\n".join(f"> {line}".rstrip() for line in entry.reasoning.split("\n"))
        lines += ["> *thinking*", ">", quoted, ""]
    lines += [entry.content, ""]
    if entry.state != "complete":
        lines += [f"*(ended early: {entry.reason})*", ""]
    return lines


def _json_of(entry: MessageEntry) -> dict[str, Any]:
    data = {name: getattr(entry, name) for name in entry.__slots__ if name != "record"}
    data["made_with"] = None if entry.made_with is None else dict(entry.made_with)
    data["files"] = [asdict(one) for one in entry.files]
    data["record"] = entry.record.as_json() if entry.record else None
    return data
