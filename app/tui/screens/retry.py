"""Shift+F5: how an answer is made once more; the panel begins with the values that it had.

They hold for that one answer and are kept with it; the conversation's own stay as they are.
"""

from typing import ClassVar

from textual.binding import Binding, BindingType

from app.live import LiveSettings
from app.tui.screens.help import HelpPart
from app.tui.screens.parameters import ParameterScreen
from app.tui.theme import Look
from engine.types import EngineInfo


class RetryScreen(ParameterScreen):
    """Returns a list when the answer is to be made, None when it is not.

    Args:
        live: the values of that answer, changed here.
        info: of the loaded model.
        look: colours and signs.
    """

    SAYS = "Answer once more, with other values"
    KEYS = "F5 answers · Ctrl+R resets · Esc gives up"
    HELP_PART: ClassVar = HelpPart(
        "Where an answer is made once more",
        (
            ("F5, Ctrl+Enter", "answer with these values, as a branch beside the first"),
            ("Up / Down, Enter", "another row; what was typed is taken"),
            ("Left / Right, Space", "another word, in rows that hold one of a few"),
            ("Ctrl+R", "what that answer had, or of all rows; an empty seed is a fresh one"),
            ("Esc", "no other answer; the conversation's own values stay in any case"),
        ),
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f5,shift+f5,f17,ctrl+enter", "answer", show=False, priority=True),
        Binding("escape", "give_up", show=False, priority=True),
    ]

    def __init__(self, live: LiveSettings, info: EngineInfo | None, look: Look) -> None:
        super().__init__(live, info, "", None, look)

    def action_answer(self) -> None:
        """Answer, unless a value does not read."""
        if self.take_focused():
            self.dismiss([])

    def action_give_up(self) -> None:
        """Close without an answer."""
        self.dismiss(None)
