"""What reaches a person who looks elsewhere: the terminal's title, and a bell."""

from app.live import LiveSettings
from app.tui.clock import Clock
from app.tui.conversation import Conversation
from app.tui.themed import ThemedApp
from app.visible import visible_line

LONG_SECONDS = 10.0
"""From when on the end of an answer is worth a sound."""

TITLE_CELLS = 80
KEEP, GIVE_BACK = "\x1b[22;2t", "\x1b]2;\x07\x1b[23;2t"
"""Have the terminal keep its title, and take it back; one that keeps none shows its own again."""

READY = "answer ready"


class Attention:
    """Tells what is loaded and what goes on, and when a long answer is done."""

    def __init__(
        self, app: ThemedApp, chat: Conversation, live: LiveSettings, clock: Clock
    ) -> None:
        self._app = app
        self._chat = chat
        self._live = live
        self._clock = clock
        self._was_busy = False
        self._is_waited_for = False
        self._shown = ""

    def tick(self) -> None:
        """Follow the conversation."""
        is_busy = self._chat.is_busy
        if self._was_busy and not is_busy and self._has_taken_long and not self._app.app_focus:
            self._is_waited_for = True
            if self._live.settings.chat.bell:
                self._app.bell()
        if is_busy or self._app.app_focus:
            self._is_waited_for = False
        self._was_busy = is_busy
        self._show(self.title if self._live.settings.chat.title else "")

    def end(self) -> None:
        """Give the terminal its own title again."""
        self._show("")

    @property
    def title(self) -> str:
        """One line without a control character, whatever the model is called."""
        info, phase = self._chat.info, self._chat.phase
        state = READY if self._is_waited_for else "ready" if phase == "idle" else phase
        named = [info.model, info.profile] if info is not None else []
        dot = f" {self._app.look.signs.dot} "
        return visible_line(dot.join(["qwen38", *named, state]), TITLE_CELLS)

    @property
    def _has_taken_long(self) -> bool:
        return self._clock.seconds() - self._chat.answering.began_at >= LONG_SECONDS

    def _show(self, title: str) -> None:
        if title == self._shown:
            return
        before, self._shown = self._shown, title
        if not title:
            self._app.write_control(GIVE_BACK)
        else:
            self._app.write_control(f"{'' if before else KEEP}\x1b]2;{title}\x07")
