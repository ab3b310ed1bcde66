"""How the lines of a session's file rebuild it, and how they are made.

Lines: ``session`` (head), ``message``, ``start`` / ``part`` / ``end`` of an answer, ``system``,
``settings``, ``title`` and ``branch``. A line of a later make is passed over. Knows no file.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from app.sessions.checked import DAMAGED
from app.sessions.entries import ROOT, Contents, FileSpan, MessageEntry
from app.sessions.turns import pack, unpack
from engine.records import TurnRecord
from engine.types import Role

FORMAT = 1
"""The newest make of file that this program reads and writes."""


def read_contents(session_id: str, lines: Iterable[Mapping[str, Any]]) -> Contents:
    """Rebuild a session from its lines."""
    contents = Contents(session_id)
    for line in lines:
        _apply(contents, line)
    return contents


def _apply(contents: Contents, line: Mapping[str, Any]) -> None:
    """Take one line; one that does not fit is counted and passed over."""
    kind = line.get("type")
    try:
        _APPLY[str(kind)](contents, line)
    except DAMAGED:
        contents.num_foreign += 1
    else:
        contents.touch(line)


def session_line(contents: Contents) -> dict[str, Any]:
    """The head line of a session's file."""
    return {
        "type": "session", "format": FORMAT, "id": contents.id, "at": contents.created,
        "model": contents.model, "profile": contents.profile, "system": contents.system,
    }  # fmt: skip


def title_line(title: str, at: str) -> dict[str, Any]:
    """A title that a person gave, as a line of the file."""
    return {"type": "title", "text": title, "at": at}


def settings_line(contents: Contents, at: str) -> dict[str, Any]:
    """What is set for the conversation, as one line."""
    return {"type": "settings", "values": contents.settings, "at": at}


def message_line(entry: MessageEntry, ids_before: Sequence[int]) -> dict[str, Any]:
    """A whole message as one line; ``ids_before`` are those of ``Contents.ids_before``."""
    line: dict[str, Any] = {
        "type": "message", "id": entry.id, "parent": entry.parent, "at": entry.at,
        "role": entry.role, "content": entry.content,
    }  # fmt: skip
    if entry.model:
        line["model"] = entry.model
    if entry.made_with is not None:
        line["with"] = dict(entry.made_with)
    if entry.files:
        line["files"] = [[one.name, one.start, one.end] for one in entry.files]
    if entry.reasoning:
        line["reasoning"] = entry.reasoning
    if entry.state != "complete":
        line["reason"] = entry.reason or "interrupted"
    if entry.record is not None:
        line["record"] = pack(entry.record, ids_before)
    return line


def _apply_session(contents: Contents, line: Mapping[str, Any]) -> None:
    made: object = line.get("format", FORMAT)
    if not isinstance(made, int) or made > FORMAT:
        contents.newer_format = str(made)
    contents.created = str(line.get("at", ""))
    contents.model = str(line.get("model", ""))
    contents.profile = str(line.get("profile", ""))
    contents.system = str(line.get("system", ""))


def _apply_message(contents: Contents, line: Mapping[str, Any]) -> None:
    reason = str(line.get("reason", ""))
    content = _text(line, "content")
    reasoning = str(line.get("reasoning", ""))
    entry = MessageEntry(
        id=_new_id(line),
        parent=_text(line, "parent"),
        role=_role(line),
        content=content,
        reasoning=reasoning,
        at=str(line.get("at", "")),
        state="stopped" if reason else "complete",
        reason=reason,
        model=str(line.get("model", "")),
        made_with=_made_with(line),
        files=_files(line, content),
    )
    contents.put(replace(entry, record=_record(contents, entry, line)))


def _record(contents: Contents, entry: MessageEntry, line: Mapping[str, Any]) -> TurnRecord | None:
    """What a line holds of how an answer came about."""
    packed = line.get("record")
    if not packed:
        return None
    return unpack(packed, entry.content, entry.reasoning, contents.ids_before(entry))


def _apply_start(contents: Contents, line: Mapping[str, Any]) -> None:
    entry = MessageEntry(_new_id(line), _text(line, "parent"), "assistant", "")
    at, model = str(line.get("at", "")), str(line.get("model", ""))
    made_with = _made_with(line)
    contents.put(replace(entry, at=at, state="writing", model=model, made_with=made_with))


def _made_with(line: Mapping[str, Any]) -> Mapping[str, str] | None:
    found = line.get("with")
    if found is None:
        return None
    return {str(name): str(raw) for name, raw in dict(found).items()}


def _files(line: Mapping[str, Any], content: str) -> tuple[FileSpan, ...]:
    """The files of a message; none where their places are not in it, one behind the other."""
    found = [
        FileSpan(str(name), int(start), int(end)) for name, start, end in line.get("files", ())
    ]
    ends = [0, *(place for one in found for place in (one.start, one.end)), len(content)]
    return tuple(found) if ends == sorted(ends) else ()


def _apply_part(contents: Contents, line: Mapping[str, Any]) -> None:
    entry = contents.messages[_text(line, "id")]
    contents.messages[entry.id] = replace(
        entry,
        content=entry.content + str(line.get("answer", "")),
        reasoning=entry.reasoning + str(line.get("thinking", "")),
    )


def _apply_end(contents: Contents, line: Mapping[str, Any]) -> None:
    entry = contents.messages[_text(line, "id")]
    content = str(line.get("content", entry.content))
    reasoning = str(line.get("reasoning", entry.reasoning))
    entry = replace(
        entry,
        content=content,
        reasoning=reasoning,
        state="stopped" if line.get("reason") else "complete",
        reason=str(line.get("reason", "")),
    )
    contents.messages[entry.id] = replace(entry, record=_record(contents, entry, line))


def _apply_system(contents: Contents, line: Mapping[str, Any]) -> None:
    contents.system = _text(line, "text")


def _apply_settings(contents: Contents, line: Mapping[str, Any]) -> None:
    contents.settings = {str(name): str(raw) for name, raw in dict(line["values"]).items()}


def _apply_title(contents: Contents, line: Mapping[str, Any]) -> None:
    contents.given_title = _text(line, "text")


def _apply_branch(contents: Contents, line: Mapping[str, Any]) -> None:
    leaf = _text(line, "id")
    if leaf and leaf not in contents.messages:
        raise KeyError(leaf)
    contents.leaf = leaf


def _text(line: Mapping[str, Any], key: str) -> str:
    value = line[key]
    if not isinstance(value, str):
        raise TypeError(key)
    return value


def _new_id(line: Mapping[str, Any]) -> str:
    """The id of a message; `ROOT` is none, for it would stand above itself."""
    found = _text(line, "id")
    if found == ROOT:
        raise ValueError("id")
    return found


def _role(line: Mapping[str, Any]) -> Role:
    role = line["role"]
    if role not in ("system", "user", "assistant"):
        raise ValueError(role)
    return role


_APPLY = {
    "session": _apply_session,
    "message": _apply_message,
    "start": _apply_start,
    "part": _apply_part,
    "end": _apply_end,
    "system": _apply_system,
    "settings": _apply_settings,
    "title": _apply_title,
    "branch": _apply_branch,
}
