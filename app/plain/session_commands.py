"""Commands of the plain chat about conversations as a whole: begin, go back to, keep elsewhere."""

from collections.abc import Mapping
from pathlib import Path

from app.commands.sessions import summary_line
from app.output_file import new_name
from app.plain.state import Handler, PlainState
from app.report import say
from app.sessions.export import export_to
from app.sessions.store import SessionError


def _new(state: PlainState, _argument: str) -> None:
    state.session.expect_kept()
    state.go_to(state.new_session())
    say("A new conversation.")


def _resume(state: PlainState, argument: str) -> None:
    latest = state.store.latest()
    wanted = argument or (latest.id if latest else "")
    if not wanted:
        raise SessionError("There is no conversation to go on with yet.", "Send a message.")
    here = state.session.id
    if wanted == here or state.store.meant(wanted) == here:
        raise SessionError("You are in that conversation.", "See /sessions for others.")
    state.session.expect_kept()
    state.go_to(state.store.open(wanted))
    say(f"{state.session.title}: {len(state.session.path_messages())} messages.")


def _sessions(state: PlainState, _argument: str) -> None:
    found, unreadable = state.store.survey()
    for one in found:
        say(summary_line(one))
    if unreadable:
        say(unreadable)
    elif not found:
        say("There are no conversations yet.")


def _rename(state: PlainState, argument: str) -> None:
    state.session.rename(argument)
    say(f"This conversation is called: {state.session.title}")


def _delete(state: PlainState, argument: str) -> None:
    session = state.session
    if argument not in ("", session.id):
        say(f"Deleted {', '.join(state.store.delete([argument]))}.")
    elif not session.messages:
        say("There is nothing to delete yet.")
    elif state.asked_to_delete != session.id:
        state.asked_to_delete = session.id
        say("/delete again deletes this conversation for good.")
    else:
        state.go_to(state.new_session())
        say(f"Deleted {', '.join(state.store.delete([session.id]))}.")


def _session(state: PlainState, _argument: str) -> None:
    session, info = state.session, state.engine.info
    messages = session.request_messages()
    num_tokens = state.engine.count_tokens(messages) if messages else 0
    where = session.path if session.is_saved and session.messages else "nowhere on disk yet"
    for line in (session.title, session.id, str(where)):
        say(line)
    say(
        f"{len(session.path_messages())} messages, {num_tokens:,} of "
        f"{info.max_context_tokens:,} tokens; {info.model}, profile {info.profile}, {info.device}."
    )


def _export(state: PlainState, argument: str) -> None:
    path = Path(argument or new_name("qwen38", ".md"))
    say(f"Written to {export_to(state.session, path)}.")


SESSION_COMMANDS: Mapping[str, Handler] = {
    "new": _new,
    "resume": _resume,
    "sessions": _sessions,
    "session": _session,
    "rename": _rename,
    "delete": _delete,
    "export": _export,
}
