"""What the slash commands do in the plain chat."""

import base64
import shutil
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from app import clipboard
from app.attached import mention_of, read_typed, typed_message
from app.commands.sessions import summary_line
from app.copied_text import text_meant
from app.live import show_value
from app.output_file import new_name
from app.plain.compare import compare
from app.plain.profile import profile
from app.plain.state import PlainState
from app.report import say, say_lines
from app.retry import retry_meant
from app.sessions.branches import branch_meant, branches_of, message_meant, prompt_meant
from app.sessions.export import export_to
from app.sessions.search import find_in
from app.sessions.store import SessionError
from app.slash import SlashCommand, help_text
from app.stats import stats_line
from app.streams import write_control
from app.trace.export import HOW_TO_OPEN, export_present
from app.visible import visible_line
from engine.errors import RequestError
from engine.settings.declared import KNOWN

Next = Literal["prompt", "answer", "go on", "leave"]
"""After a command: the prompt, an answer to the end of the branch, more of it, or the end."""

LINE_CELLS = 70

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


def _new(state: PlainState, _argument: str) -> None:
    state.session.expect_kept()
    state.go_to(state.new_session())
    say("A new conversation.")


def _resume(state: PlainState, argument: str) -> None:
    latest = state.store.latest()
    wanted = argument or (latest.id if latest else "")
    if not wanted:
        raise SessionError("There is no conversation to go on with yet.", "Send a message.")
    if state.session.id.startswith(wanted):
        raise SessionError("You are in that conversation.", "See /sessions for others.")
    state.session.expect_kept()
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


def _rename(state: PlainState, argument: str) -> None:
    state.session.rename(argument)
    say(f"This conversation is called: {state.session.title}")


def _delete(state: PlainState, argument: str) -> None:
    if not argument:
        raise RequestError("Say which: /delete ID.", "/sessions lists them.")
    say(f"Deleted {', '.join(state.store.delete([argument]))}.")


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


def _profile(state: PlainState, argument: str) -> None:
    profile(state, argument)


def _compare(state: PlainState, argument: str) -> None:
    compare(state, argument)


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
    now = state.settings.chat.thinking
    say(state.live.set("chat.thinking", argument or ("off" if now else "on")))
    state.session.set_settings(state.live.kept())
    if not state.engine.info.supports_thinking:
        say("This model does not think before it answers.")


def _thoughts(state: PlainState, argument: str) -> None:
    if argument:
        state.live.set("chat.show_thinking", argument)
    say(f"{state.live.describe('chat.show_thinking')}.")


def _edit(state: PlainState, argument: str) -> None:
    if not argument:
        say("Ctrl+X Ctrl+E opens the editor on what you write.")
        return
    entry = message_meant(state.session, argument, "user")
    state.session.select(entry.parent)
    state.session.draft = typed_message(entry)
    say("Write it anew; sending makes a branch beside the old one.")


def _read(state: PlainState, argument: str) -> None:
    if not argument:
        raise RequestError("Say which file: /read PATH.", "@PATH in a message sends it.")
    file = read_typed(argument)
    num_tokens = state.engine.text_tokens(file.text)
    say(f"{file.name}: {num_tokens:,} tokens. Write {mention_of(file.name)} in a message.")


def _redo(state: PlainState, argument: str) -> Next:
    state.session.select(prompt_meant(state.session, argument).id)
    return "answer"


def _retry(state: PlainState, argument: str) -> Next:
    wanted = retry_meant(state.session, state.live, argument)
    for sentence in wanted.refused:
        say(sentence)
    if not wanted.is_told:
        values = wanted.live.in_force() or {"every setting": "its default"}
        say(f"That answer had: {', '.join(f'{name}={raw}' for name, raw in values.items())}.")
        say("Name others behind it, such as /retry temperature=0.2 seed=7.")
        return "prompt"
    state.session.select(wanted.prompt.id)
    state.once = wanted.live
    return "answer"


def _continue(state: PlainState, _argument: str) -> Next:
    path = state.session.path_messages()
    if not path or path[-1].role != "assistant":
        raise RequestError("There is no answer to go on with.", "Send a message first.")
    if path[-1].ended_itself:
        raise RequestError("The answer is whole: the model ended it itself.", "Try /redo.")
    if path[-1].content or path[-1].reasoning:
        return "go on"
    state.session.select(path[-1].parent)
    return "answer"


def _branch(state: PlainState, argument: str) -> None:
    _, leaf = branch_meant(state.session, argument)
    state.session.select(leaf)
    _tree(state, "")


def _tree(state: PlainState, _argument: str) -> None:
    number, _ = state.session.tree().place(state.session.leaf)
    for at, one in enumerate(branches_of(state.session), 1):
        mark = ">" if at == number else " "
        where = f"message {one.fork_number} of {one.num_messages}"
        say(f"{mark} {at:>2}  {where}  {visible_line(one.fork.words, LINE_CELLS)}")


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


def _export(state: PlainState, argument: str) -> None:
    path = Path(argument or new_name("qwen38", ".md"))
    say(f"Written to {export_to(state.session, path)}.")


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


_HANDLERS: dict[str, Callable[[PlainState, str], Next | None]] = {
    "help": _help,
    "new": _new,
    "resume": _resume,
    "sessions": _sessions,
    "session": _session,
    "profile": _profile,
    "compare": _compare,
    "rename": _rename,
    "delete": _delete,
    "system": _system,
    "set": _set,
    "think": _think,
    "thoughts": _thoughts,
    "edit": _edit,
    "read": _read,
    "redo": _redo,
    "retry": _retry,
    "continue": _continue,
    "branch": _branch,
    "tree": _tree,
    "now": _on_the_screen,
    "history": _on_the_screen,
    "find": _find,
    "pager": _on_the_screen,
    "stop": _stop,
    "copy": _copy,
    "export": _export,
    "trace": _trace,
    "view": _view,
    "tokens": _tokens,
    "quit": _quit,
}
