"""What the slash commands do in the plain chat."""

import base64
import shutil
import textwrap

from app import clipboard
from app.attached import mention_of, read_typed
from app.copied_text import text_meant
from app.live import show_value
from app.plain.branch_commands import BRANCH_COMMANDS
from app.plain.compare import compare
from app.plain.profile import profile
from app.plain.session_commands import SESSION_COMMANDS
from app.plain.state import Handler, Next, PlainState
from app.report import say, say_lines
from app.sessions.search import find_in
from app.slash import SlashCommand, help_text
from app.stats import stats_line
from app.streams import write_control
from app.think import think
from app.trace.export import HOW_TO_OPEN, export_present
from engine.errors import RequestError
from engine.settings.declared import KNOWN

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
    cells = shutil.get_terminal_size().columns
    say_lines(f"{help_text(cells)}\n{textwrap.fill(KEYS, max(cells - 1, 20))}")


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
        state.session.set_settings(state.live.kept())
    else:
        say(f"{state.live.describe(name)}.")


def _think(state: PlainState, argument: str) -> None:
    say(think(state.live, argument, state.engine.info))
    state.session.set_settings(state.live.kept())


def _thoughts(state: PlainState, argument: str) -> None:
    if argument:
        state.live.set("chat.show_thinking", argument)
    say(f"{state.live.describe('chat.show_thinking')}.")


def _read(state: PlainState, argument: str) -> None:
    if not argument:
        raise RequestError("Say which file: /read PATH.", "@PATH in a message sends it.")
    file = read_typed(argument)
    num_tokens = state.engine.text_tokens(file.block)
    say(f"{file.name}: {num_tokens:,} tokens. Write {mention_of(file.name)} in a message.")


def _find(state: PlainState, argument: str) -> None:
    found = find_in(state.session.path_messages(), argument)
    for number, entry, line in found:
        say(f"{number:>4}  {'you' if entry.role == 'user' else 'model'}: {line}")
    if not found:
        say("Nothing was found.")


def _on_the_screen(_state: PlainState, _argument: str) -> None:
    raise RequestError(
        "That works in the full screen only.", "Scroll back, or press Ctrl+R for earlier prompts."
    )


def _stop(_state: PlainState, _argument: str) -> None:
    say("Nothing is being written. Ctrl+C stops an answer while it is.")


def _copy(state: PlainState, argument: str) -> None:
    text = text_meant(state.session, argument)
    if program := clipboard.copy_native(text):
        say(f"{clipboard.how_copied(text, program)}.")
        return
    if not clipboard.fits(text):
        try:
            path = clipboard.copy_to_file(text, state.settings.state_dir)
        except OSError as problem:
            raise RequestError(
                f"The answer cannot be copied: {problem.strerror}.", "Use /export FILE."
            ) from None
        say(f"Too long for the terminal's clipboard; it is in {path}.")
        return
    data = base64.b64encode(text.encode("utf-8", "replace")).decode("ascii")
    if not write_control(f"\x1b]52;c;{data}\x07"):
        raise RequestError("There is no terminal whose clipboard could be reached.", "Use /export.")
    say(f"{clipboard.how_copied(text)}.")


def _tokens(_state: PlainState, _argument: str) -> None:
    say("Tokens are marked on the full screen only; --json of 'qwen38 run' lists them by round.")


def _view(state: PlainState, _argument: str) -> None:
    path = state.session.path_messages()
    record = next((one.record for one in reversed(path) if one.record is not None), None)
    say(stats_line(record) if record is not None else "There is no answer yet.")


def _trace(state: PlainState, argument: str) -> None:
    say(f"Written to {export_present(state.recorder, state.session, argument)}. {HOW_TO_OPEN}")


def _quit(_state: PlainState, _argument: str) -> Next:
    return "leave"


_HANDLERS: dict[str, Handler] = {
    **SESSION_COMMANDS,
    **BRANCH_COMMANDS,
    "help": _help,
    "profile": profile,
    "compare": compare,
    "system": _system,
    "set": _set,
    "think": _think,
    "thoughts": _thoughts,
    "read": _read,
    "now": _on_the_screen,
    "history": _on_the_screen,
    "find": _find,
    "pager": _on_the_screen,
    "stop": _stop,
    "copy": _copy,
    "trace": _trace,
    "view": _view,
    "tokens": _tokens,
    "quit": _quit,
}
