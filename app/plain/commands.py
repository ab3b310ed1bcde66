"""What the slash commands do in the plain chat."""

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from app.commands.sessions import summary_line
from app.live import show_value
from app.plain.state import PlainState
from app.report import say, say_lines
from app.sessions.export import export_to
from app.sessions.store import SessionError
from app.slash import SlashCommand, help_text
from app.streams import write_control
from app.trace.export import HOW_TO_OPEN, export_present
from app.tui import clipboard
from engine.errors import RequestError
from engine.settings import environment
from engine.settings.declared import KNOWN

Next = Literal["prompt", "answer", "leave"]
"""What comes after a command: the prompt, an answer to the end of the branch, or the end."""

KEYS = (
    "Enter sends, Alt+Enter or Ctrl+J begins a line, Ctrl+R searches earlier prompts, "
    "Ctrl+X Ctrl+E opens the editor. Ctrl+C stops an answer, clears the line, and leaves an "
    "empty one."
)


def act(state: PlainState, command: SlashCommand, argument: str) -> Next:
    """Do what ``command`` says.

    Raises:
        EngineError: it cannot be done; the sentence says why.
    """
    return _HANDLERS[command.name](state, argument) or "prompt"


def _help(_state: PlainState, _argument: str) -> None:
    say_lines(f"{help_text()}\n{KEYS}")


def _new(state: PlainState, _argument: str) -> None:
    state.go_to(state.new_session())
    say("A new conversation.")


def _resume(state: PlainState, argument: str) -> None:
    latest = state.store.latest()
    wanted = argument or (latest.id if latest else "")
    if not wanted:
        raise SessionError("There is no conversation to go on with yet.")
    if state.session.id.startswith(wanted):
        raise SessionError("You are in that conversation.", "See /sessions for others.")
    state.go_to(state.store.open(wanted))
    say(f"{state.session.title}: {len(state.session.path_messages())} messages.")


def _sessions(state: PlainState, _argument: str) -> None:
    found, unreadable = state.store.survey()
    for one in found:
        say(summary_line(one))
    if not found:
        say("There are no conversations yet.")
    if unreadable:
        say(unreadable)


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


def _system(state: PlainState, argument: str) -> None:
    if argument:
        state.session.set_system("" if argument == "-" else argument)
    say(f"System prompt: {state.session.system or 'none'}")


def _set(state: PlainState, argument: str) -> None:
    name, _, value = argument.partition(" ")
    if not name:
        changeable = (one for one in KNOWN.values() if one.when != "start")
        for one in changeable:
            say(f"{one.name} = {show_value(state.live.resolved[one.name].value)}")
    elif value.strip():
        say(state.live.set(name, value.strip()))
    else:
        say(f"{state.live.describe(name)}.")


def _think(state: PlainState, argument: str) -> None:
    now = state.settings.chat.thinking
    say(state.live.set("chat.thinking", argument or ("off" if now else "on")))
    if not state.engine.info.supports_thinking:
        say("This model does not think before it answers.")


def _thoughts(state: PlainState, argument: str) -> None:
    if argument:
        state.live.set("chat.show_thinking", argument)
    say(f"{state.live.describe('chat.show_thinking')}.")


def _edit(_state: PlainState, _argument: str) -> None:
    say("Ctrl+X Ctrl+E opens the editor on what you write.")


def _redo(state: PlainState, _argument: str) -> Next:
    path = state.session.path_messages()
    if not path:
        raise RequestError("There is nothing to answer once more yet.")
    if path[-1].role == "assistant":
        state.session.select(path[-1].parent)
    return "answer"


def _stop(_state: PlainState, _argument: str) -> None:
    say("Nothing is being written. Ctrl+C stops an answer while it is.")


def _copy(state: PlainState, argument: str) -> None:
    answers = [one.content for one in state.session.path_messages() if one.role == "assistant"]
    number = int(argument) if argument.isdecimal() else 0 if argument else 1
    if not 1 <= number <= len(answers):
        raise RequestError(f"There is no answer {argument or 1} from the end.")
    text = answers[-number]
    if not clipboard.fits(text):
        try:
            path = clipboard.copy_to_file(text, state.settings.state_dir)
        except OSError as problem:
            raise RequestError(f"The answer cannot be copied: {problem.strerror}.") from None
        say(f"Too long for the terminal's clipboard; it is in {path}.")
        return
    data = base64.b64encode(text.encode("utf-8", "replace")).decode("ascii")
    if not write_control(f"\x1b]52;c;{data}\x07"):
        raise RequestError("There is no terminal whose clipboard could be reached.", "Use /export.")
    inside = environment.inside_multiplexer()
    say(f"{clipboard.how_copied(text, inside_multiplexer=inside)}.")


def _export(state: PlainState, argument: str) -> None:
    path = Path(argument or f"{state.session.id}.md")
    say(f"Written to {export_to(state.session, path)}.")


def _trace(state: PlainState, argument: str) -> None:
    say(f"Written to {export_present(state.recorder, state.session, argument)}. {HOW_TO_OPEN}")


def _quit(_state: PlainState, _argument: str) -> Next:
    return "leave"


_HANDLERS: dict[str, Callable[[PlainState, str], Next | None]] = {
    "help": _help,
    "new": _new,
    "resume": _resume,
    "sessions": _sessions,
    "session": _session,
    "system": _system,
    "set": _set,
    "think": _think,
    "thoughts": _thoughts,
    "edit": _edit,
    "redo": _redo,
    "stop": _stop,
    "copy": _copy,
    "export": _export,
    "trace": _trace,
    "quit": _quit,
}
