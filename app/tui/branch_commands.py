"""Commands about branches: answer again, with other values too, write anew, walk between them."""

from collections.abc import Callable

from app.live import LiveSettings
from app.retry import retry_meant
from app.sessions.branches import branch_meant, branches_of, message_meant, prompt_meant
from app.tui.branching import answer_again, go_on
from app.tui.conversation import Conversation
from app.tui.not_now import expect_free
from app.tui.screens.branches import BranchScreen
from app.tui.screens.retry import RetryScreen
from app.tui.window import Window


class BranchCommands:
    """The part of the table that deals with the tree of a session."""

    def __init__(self, window: Window, chat: Conversation, live: LiveSettings) -> None:
        self._window = window
        self._chat = chat
        self._live = live
        self.table: dict[str, Callable[[str], None]] = {
            "redo": self._redo,
            "retry": self._retry,
            "continue": self._continue,
            "edit": self._edit,
            "branch": self._branch,
            "tree": self._tree,
        }

    def _redo(self, argument: str) -> None:
        expect_free(self._chat)
        answer_again(self._chat, prompt_meant(self._chat.session, argument).id)

    def _retry(self, argument: str) -> None:
        expect_free(self._chat)
        wanted = retry_meant(self._chat.session, self._live, argument)
        for sentence in wanted.refused:
            self._chat.notice("Settings", f"{sentence} Its default stands there now.", "warning")

        def answer(taken: list[str] | None) -> None:
            if taken is not None and self._chat.is_free:
                answer_again(self._chat, wanted.prompt.id, wanted.live)

        if wanted.is_told:
            answer([])
        else:
            look = self._window.transcript.look
            self._window.open_sheet(RetryScreen(wanted.live, self._chat.info, look), answer)

    def _continue(self, argument: str) -> None:
        del argument
        expect_free(self._chat)
        if not go_on(self._chat):
            self._window.hint(
                "nothing to go on with: no answer here was stopped, cut off or edited"
            )

    def _edit(self, argument: str) -> None:
        if argument:
            self._window.rewrite(message_meant(self._chat.session, argument, "user"))
        else:
            self._window.outside.edit()

    def _branch(self, argument: str) -> None:
        expect_free(self._chat)
        message_id, leaf = branch_meant(self._chat.session, argument)
        self._chat.go_to(leaf)
        self._window.transcript.put_cursor(message_id)

    def _tree(self, argument: str) -> None:
        del argument
        expect_free(self._chat)
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
