"""Commands about branches: answer again, write an earlier message anew, walk between them."""

from collections.abc import Callable

from app.sessions.branches import branch_meant, branches_of, message_meant, prompt_meant
from app.tui.conversation import Conversation
from app.tui.screens.branches import BranchScreen
from app.tui.window import Window


class BranchCommands:
    """The part of the table that deals with the tree of a session."""

    def __init__(self, window: Window, chat: Conversation) -> None:
        self._window = window
        self._chat = chat
        self.table: dict[str, Callable[[str], None]] = {
            "redo": self._redo,
            "continue": self._continue,
            "edit": self._edit,
            "branch": self._branch,
            "tree": self._tree,
        }

    def _redo(self, argument: str) -> None:
        if self._is_free():
            self._chat.answer_again(prompt_meant(self._chat.session, argument).id)

    def _continue(self, argument: str) -> None:
        del argument
        if self._is_free() and not self._chat.go_on():
            self._window.hint("there is no answer here to go on with")

    def _edit(self, argument: str) -> None:
        if argument:
            self._window.rewrite(message_meant(self._chat.session, argument, "user"))
        else:
            self._window.edit_outside()

    def _branch(self, argument: str) -> None:
        if self._is_free():
            message_id, leaf = branch_meant(self._chat.session, argument)
            self._chat.go_to(leaf)
            self._window.transcript.put_cursor(message_id)

    def _tree(self, argument: str) -> None:
        del argument
        if not self._is_free():
            return
        session = self._chat.session
        found = branches_of(session)
        if not found:
            self._window.hint("there is no message yet, so there is no branch")
            return
        number, _ = session.tree().place(session.leaf)
        sheet = BranchScreen(found, number - 1, self._window.transcript.look)
        self._window.open_sheet(sheet, self._take_leaf)

    def _take_leaf(self, leaf: str | None) -> None:
        if leaf is not None:
            self._chat.go_to(leaf)

    def _is_free(self) -> bool:
        if self._chat.is_busy:
            self._window.hint("an answer is being written: Esc stops it")
        elif not self._chat.is_free:
            self._window.hint("the model is not loaded yet")
        return self._chat.is_free
