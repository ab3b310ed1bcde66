"""A session as a document: Markdown for people, JSON for programs."""

import json
from pathlib import Path
from typing import Any

from app.sessions.entries import MessageEntry
from app.sessions.session import Session
from app.sessions.store import SessionError

NAMES = {"user": "You", "assistant": "Assistant", "system": "System"}


def export_to(session: Session, path: Path) -> Path:
    """Write the session to a new file; its ending chooses the format (``.json``, else Markdown).

    Raises:
        SessionError: the file exists already or cannot be written.
    """
    text = as_json(session) if path.suffix == ".json" else as_markdown(session)
    return write_text(path, text)


def write_text(path: Path, text: str, *, replace: bool = False) -> Path:
    """Write ``text`` to ``path``; returns the full path.

    Raises:
        SessionError: the file exists already (unless ``replace``) or cannot be written.
    """
    path = path.expanduser()
    try:
        with path.open("w" if replace else "x", encoding="utf-8", errors="surrogatepass") as file:
            file.write(text)
    except FileExistsError:
        raise SessionError(f"{path} exists already.", "Give another name.") from None
    except OSError as problem:
        raise SessionError(f"{path} cannot be written: {problem.strerror}.") from None
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
    data["record"] = entry.record.as_json() if entry.record else None
    return data
