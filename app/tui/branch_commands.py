"""Commands about branches: answer again, write an earlier message anew, walk between them."""

from collections.abc import Callable

from app.sessions.entries import MessageEntry
from app.tui.conversation import Conversation
from app.tui.screens.branches import BranchScreen
from app.tui.window import Window
from engine.errors import RequestError

STEPS = {"next": 1, "previous": -1}


class BranchCommands:
    """The part of the table that deals with the tree of a session.

    Messages are meant by their place from the end, 1 for the last, or by what the reader's cursor
    is on, which keys hand over as an id.
    """

    def __init__(self, window: Window, chat: Conversation) -> None:
        self._window = window
        self._chat = chat
        self.table: dict[str, Callable[[str], None]] = {
            "redo": self._redo,
            "edit": self._edit,
            "branch": self._branch,
            "tree": self._tree,
        }

    def _redo(self, argument: str) -> None:
        if not self._is_free():
            return
        entry = self._meant(argument, "assistant", "user")
        while entry is not None and entry.role != "user":
            entry = self._chat.session.messages.get(entry.parent)
        if entry is None:
            self._window.hint("there is no message to answer again")
        else:
            self._chat.answer_again(entry.id)

    def _edit(self, argument: str) -> None:
        if not argument:
            self._window.edit_outside()
        elif entry := self._meant(argument, "user"):
            self._window.rewrite(entry)
        else:
            self._window.hint("there is no message to write anew")

    def _branch(self, argument: str) -> None:
        """``next`` or ``previous`` at the message under the cursor, or the number of a branch."""
        word, _, message_id = argument.partition(" ")
        if not self._is_free():
            return
        if word in STEPS:
            self._step(STEPS[word], message_id)
        elif word.isdecimal():
            self._go_to_branch(int(word))
        else:
            raise RequestError(f"'{word}' is no branch.", "Write next, previous, or its number.")

    def _step(self, step: int, message_id: str) -> None:
        tree = self._chat.session.tree()
        entry = self._fork(message_id)
        if entry is None:
            self._window.hint("no message here has another beside it: e and r make one")
            return
        beside = [one.id for one in tree.siblings(entry.id)]
        at = beside[(beside.index(entry.id) + step) % len(beside)]
        self._chat.go_to(tree.newest_leaf(at))
        self._window.transcript.put_cursor(at)

    def _fork(self, message_id: str) -> MessageEntry | None:
        """The message meant when it has siblings, else the last one of the branch that has."""
        session = self._chat.session
        tree = session.tree()
        path = session.path_messages()
        meant = [one for one in path if one.id == message_id]
        for one in (*meant, *reversed(path)):
            beside = [other.id for other in tree.siblings(one.id)]
            if len(beside) > 1 and one.id in beside:
                return one
        return None

    def _go_to_branch(self, number: int) -> None:
        leaves = self._chat.session.tree().leaves()
        if not 1 <= number <= len(leaves):
            raise RequestError(f"There is no branch {number}; there are {len(leaves)}.")
        self._chat.go_to(leaves[number - 1].id)

    def _tree(self, argument: str) -> None:
        del argument
        if not self._is_free():
            return
        if not self._chat.session.tree().leaves():
            self._window.hint("there is no message yet, so there is no branch")
            return
        sheet = BranchScreen(self._chat.session, self._window.transcript.look)
        self._window.open_sheet(sheet, self._take_leaf)

    def _take_leaf(self, leaf: str | None) -> None:
        if leaf is not None:
            self._chat.go_to(leaf)

    def _meant(self, argument: str, *roles: str) -> MessageEntry | None:
        path = self._chat.session.path_messages()
        if argument in self._chat.session.messages:
            return self._chat.session.messages[argument]
        if argument and not argument.isdecimal():
            raise RequestError(f"'{argument}' is no number.", "1 is the last one.")
        found = [one for one in path if one.role == roles[0]]
        if not found:
            found = [one for one in path if one.role in roles]
        number = int(argument or 1)
        return found[-number] if 1 <= number <= len(found) else None

    def _is_free(self) -> bool:
        if self._chat.is_busy:
            self._window.hint("an answer is being written: Esc stops it")
        elif not self._chat.is_free:
            self._window.hint("the model is not loaded yet")
        return self._chat.is_free
