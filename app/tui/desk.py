"""What becomes of what is typed: sent, queued, written anew as a branch; kept in every case."""

from collections.abc import Callable

from app.sessions.entries import MessageEntry
from app.sessions.history import PromptHistory
from app.slash import Ran, message_text, typed_text
from app.tui.attaching import Attaching
from app.tui.branching import write_anew
from app.tui.clock import Clock
from app.tui.composer import Composer
from app.tui.conversation import Conversation
from app.tui.drafts import DraftKeeper
from app.tui.rewriting import Rewriting
from app.tui.state import complete, completion_hint

QUEUE_KEYS = "Up edits, Del drops, Ctrl+Enter sends now"


class Desk:
    """The message box with what stands behind it; ``hint`` says something for a few seconds."""

    def __init__(
        self,
        chat: Conversation,
        history: PromptHistory,
        clock: Clock,
        hint: Callable[[str, Callable[[], bool]], None],
    ) -> None:
        self._chat = chat
        self._history = history
        self._hint = hint
        self.composer = Composer(history.entries, id="composer")
        self.composer.has_queued = lambda: bool(chat.waiting.queued)
        self.composer.complete = complete
        self._attaching = Attaching(chat)
        self._drafts = DraftKeeper(clock)
        self._rewriting = Rewriting(self.composer)

    # what the person does

    def submit(self, text: str, *, now: bool, run: Callable[[str], Ran]) -> None:
        """Take what was typed; ``run`` runs it when it is a command. What is not taken stays."""
        entry = self._rewriting.entry_in(self._chat.session)
        if entry is not None:
            self._send_anew(entry, text)
            return
        ran = run(text)
        if ran == "done" or (ran == "message" and self._is_taken(message_text(text), now=now)):
            self._remember(text)
            return
        self.composer.put_before(text)
        if ran == "message":
            self._hint(
                "one message is queued already: Ctrl+Enter sends both now",
                lambda: bool(self._chat.waiting.queued),
            )

    def rewrite(self, entry: MessageEntry) -> None:
        """Have an earlier message written anew; what stood in the box is also in the history."""
        self._history.add(self.composer.full_text)
        self._rewriting.begin(entry)

    def give_up(self) -> bool:
        """Write the earlier message no more; False when none was being written anew.

        What was written of it is in the history.
        """
        if self._rewriting.entry_in(self._chat.session) is None:
            return False
        self._history.add(self.composer.take())
        self._rewriting.end()
        return True

    def clear(self) -> None:
        """Empty the box into the history."""
        self._history.add(self.composer.take())

    def take_queued(self, *, dropped: bool) -> None:
        """Bring the queued message back into the box, or drop it into the history."""
        text = typed_text(self._chat.waiting.take_queued())
        if dropped:
            self._history.add(text)
            self._hint("the queued message is dropped; Up brings it back", lambda: True)
        else:
            self.composer.put_before(text)

    def go(self, change: Callable[[], None]) -> None:
        """Change the conversation; each keeps the draft that stands in the box.

        Where the next one has none, the text goes along, and the one before has it no more.
        """
        self.keep()
        before = self._chat.session
        change()
        after = self._chat.session
        if after is before:
            return
        # the draft of new conversations may be that of another window
        if after.messages and (draft := after.draft):
            self.composer.put(draft)
        elif self.composer.text:
            before.draft = ""
        self._drafts.touch()

    # the clock

    def tick(self) -> None:
        """Take back what could not be sent, and keep what was not sent yet."""
        chat, box = self._chat, self.composer
        if refused := chat.waiting.take_refused():
            box.put_before(refused)
        if chat.waiting.queued and chat.is_free and not box.text:
            # it waited for an answer that was stopped: sending it is for the person to say
            box.put(typed_text(chat.waiting.take_queued()))
        self._drafts.save(chat, box)

    def paint(self, width: int) -> None:
        """Say what is queued."""
        preview = " ".join(self._chat.waiting.queued[: 4 * width].split())[: max(width - 64, 10)]
        self.composer.show_note(f" queued: {preview} ({QUEUE_KEYS}) " if preview else "")

    def fit(self, num_rows: int) -> None:
        """Make the box as high as its text, within what a terminal of ``num_rows`` leaves it."""
        most = max(num_rows // 3, 1)
        frame = 0 if num_rows < 16 else 2
        self.composer.styles.height = min(self.composer.wanted_rows, most) + frame

    def standing_hint(self) -> str:
        """What completes the text in the box, or what sending it costs; may be empty."""
        box = self.composer
        text = box.text
        return completion_hint(text[:200]) or self._attaching.hint(
            text, box.before_cursor, box.full_text
        )

    def typed(self) -> None:
        """Note that the box changed."""
        self._drafts.touch()

    def keep(self) -> None:
        """Write what was not sent to disk now."""
        self._drafts.save(self._chat, self.composer, now=True)

    def _is_taken(self, message: str, *, now: bool) -> bool:
        return self._chat.submit_now(message) if now else self._chat.submit(message)

    def _send_anew(self, entry: MessageEntry, text: str) -> None:
        if not self._chat.is_free:
            self.composer.put_before(text)
            self._hint(
                "an answer is being written: Esc stops it, then Enter makes the branch",
                lambda: not self._chat.is_free,
            )
            return
        self._history.add(text)
        self._rewriting.end()
        write_anew(self._chat, entry, message_text(text) if entry.role == "user" else text)

    def _remember(self, text: str) -> None:
        problem = self._history.add(text)
        self.keep()
        if problem is not None:
            said = f"the prompt history is not on disk: {problem.strerror}"
            self._hint(said, lambda: True)
