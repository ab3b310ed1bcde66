"""Commands of the plain chat about branches: answer again, write anew, walk between them."""

from collections.abc import Mapping

from app.attached import typed_message
from app.plain.state import Handler, Next, PlainState
from app.report import say
from app.retry import retry_meant
from app.sessions.branches import branch_meant, branches_of, message_meant, prompt_meant
from app.visible import visible_line
from engine.errors import RequestError

LINE_CELLS = 70


def _edit(state: PlainState, argument: str) -> None:
    if not argument:
        say("Ctrl+X Ctrl+E opens the editor on what you write.")
        return
    entry = message_meant(state.session, argument, "user")
    state.session.select(entry.parent)
    state.session.draft = typed_message(entry)
    say("Write it anew; sending makes a branch beside the old one.")


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


BRANCH_COMMANDS: Mapping[str, Handler] = {
    "edit": _edit,
    "redo": _redo,
    "retry": _retry,
    "continue": _continue,
    "branch": _branch,
    "tree": _tree,
}
