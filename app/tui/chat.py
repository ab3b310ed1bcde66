"""The chat's Textual app: puts the parts together and gives every key its part; no rules."""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.screen import Screen
from textual.widgets import TextArea

from app.live import LiveSettings
from app.profile_menu import ProfileMenu
from app.sessions.entries import MessageEntry
from app.sessions.history import PromptHistory
from app.sessions.session import Session
from app.sessions.store import SessionStore
from app.trace.record import Recorder
from app.tui.attention import Attention
from app.tui.clock import Clock
from app.tui.commands import Commands
from app.tui.composer import Composer
from app.tui.conversation import Conversation
from app.tui.desk import Desk
from app.tui.find_bar import FindBar
from app.tui.finding import Finding
from app.tui.frame import Frame
from app.tui.giving_up import GivingUp
from app.tui.instruments.gauges import Gauges
from app.tui.instruments.instruments import Instruments
from app.tui.keyed import KeyedApp
from app.tui.keymap import Where
from app.tui.outside import Outside
from app.tui.own_keys import OwnKey
from app.tui.screens.help import HelpPart
from app.tui.state import view_hint
from app.tui.transcript import Transcript
from app.tui.worker import EngineWorker
from engine.settings import environment

MOST_BEHIND_S = 1.0
"""How long a terminal that takes nothing holds back what shall be on disk."""

WORK_SECONDS = 0.004
"""Most time a paint spends on colouring code."""


class ChatApp(KeyedApp):
    """Composition, and what each key does.

    ``prompts`` are sent by themselves, each when the answer before it has ended, as a replay does.
    """

    CSS_PATH = "chat.tcss"
    TITLE = "qwen38"
    VERTICAL_BREAKPOINTS = [  # noqa: RUF012  (declared so by Textual)
        (0, "-low"),
        (16, "-mid"),
        (30, "-tall"),
    ]

    def __init__(
        self,
        live: LiveSettings,
        store: SessionStore,
        history: PromptHistory,
        worker: EngineWorker,
        session: Session | None = None,
        clock: Clock | None = None,
        recorder: Recorder | None = None,
        prompts: Iterable[str] = (),
        *,
        profiles: ProfileMenu | None = None,
        gauges: Gauges | None = None,
        own_keys: Sequence[OwnKey] = (),
    ) -> None:
        super().__init__(live, own_keys)
        self.history = history
        self._worker = worker
        self._clock = clock or Clock()
        self.transcript = Transcript(self.look)
        self._frame = Frame(self._clock)
        self.instruments = Instruments(gauges or Gauges())
        self._prompts = deque(prompts)
        self._ticked_at = 0.0
        self.chat = Conversation(
            store, worker, self.transcript, live, self._clock, session, recorder
        )
        self._desk = Desk(self.chat, history, self._clock, self.hint)
        self.composer = self._desk.composer
        self.outside = Outside(self, self.composer, self.transcript, live, self.hint)
        self._finding = Finding(self.transcript)
        self._giving_up = GivingUp(self, self.chat, self._desk, self._finding, self._frame)
        self._attention = Attention(self, self.chat, live, self._clock)
        self._commands = Commands(self, self.chat, live, store, worker, profiles)

    def compose(self) -> ComposeResult:
        """Put the parts together."""
        yield self._frame.header
        with Horizontal(id="middle"):
            yield self.transcript
            yield self.instruments.pane
        yield self._finding.bar
        yield self._frame.state
        yield self.composer
        yield self.instruments.lines
        yield self._frame.parameters

    def on_mount(self) -> None:
        """Show the conversation, then load the model beside it.

        The load begins behind the first frame: importing the engine holds the interpreter, and the
        frame back by a second.
        """
        self.settings_changed()
        self.composer.focus()
        draft = self.chat.session.draft
        self.composer.put(draft)
        self.chat.show()
        # a draft is for the person to end: what is typed behind it unseen is not sent with it
        self.call_after_refresh(self.take_early, sends=not draft)
        self.call_after_refresh(self._worker.start)
        self.instruments.gauges.start()
        fps = self._live.settings.chat.fps or (10 if environment.over_ssh() else 20)
        self.set_interval(1 / fps, self.tick)

    def on_unmount(self) -> None:
        """Leave the terminal as it was."""
        self.instruments.gauges.stop()
        self._attention.end()

    # the clock

    def tick(self) -> None:
        """Take what happened since the last paint, and paint it; a slow terminal sets the pace."""
        seconds = self._clock.seconds()
        if self.is_behind and seconds - self._ticked_at < MOST_BEHIND_S:
            return
        self._ticked_at = seconds
        self.chat.take(self._worker.drain())
        if self._prompts and self.chat.phase == "idle":
            self.chat.submit(self._prompts.popleft())
        self.transcript.work(WORK_SECONDS)
        self._desk.tick()
        self.chat.tell_warnings()
        self._attention.tick()
        self._paint_frame()

    def _paint_frame(self) -> None:
        chat, width = self.chat, self.size.width
        self._frame.paint(chat, self._live, self._standing_hint(), width, self.transcript.look)
        self.instruments.show(chat, self.transcript.look)
        self._desk.paint(width)

    def _standing_hint(self) -> str:
        is_busy = self.chat.is_busy
        return self._desk.standing_hint() or view_hint(self.transcript, is_busy=is_busy)

    def hint(self, sentence: str, holds: Callable[[], bool] = lambda: True) -> None:
        """Say something for a few seconds in the line above the box, while it ``holds``."""
        self._frame.hint(sentence, holds)
        self._paint_frame()

    def is_second(self, what: str, seconds: float) -> bool:
        """Whether the same thing was wanted within ``seconds``; notes it otherwise."""
        return self._frame.is_second(what, seconds)

    # appearance

    def settings_changed(self) -> None:
        """Bring the screen in line with the settings."""
        chat = self._live.settings.chat
        self.dress()
        self.transcript.set_look(self.look)
        self.instruments.fit(chat.view, *self.size)
        self.transcript.show_thinking(chat.show_thinking)

    @on(TextArea.Changed)
    def _resize_box(self) -> None:
        self._desk.typed()
        self._desk.fit(self.size.height)

    def on_resize(self) -> None:
        """Fit the box and the frame to the terminal, once the app itself knows its new size."""
        self.call_later(self._fit)

    def _fit(self) -> None:
        self._resize_box()
        self.instruments.fit(self._live.settings.chat.view, *self.size)
        self._paint_frame()

    # messages

    @on(Composer.Submitted)
    def _submitted(self, event: Composer.Submitted) -> None:
        self._desk.submit(event.text, now=event.now, run=self._commands.run)

    def rewrite(self, entry: MessageEntry) -> None:
        """Have an earlier message written anew, as a branch."""
        self._desk.rewrite(entry)

    @on(Composer.EndOfFile)
    async def _end_of_file(self) -> None:
        await self.action_quit()

    @on(Composer.EndWanted)
    def _end_wanted(self) -> None:
        self.transcript.action_scroll_end()

    @on(Composer.QueueWanted)
    def _take_queued(self, event: Composer.QueueWanted) -> None:
        self._desk.take_queued(dropped=event.dropped)

    @on(Composer.TooLongToShow)
    def _too_long_to_show(self) -> None:
        self.hint("too long to show here: Ctrl+G opens it in your editor")

    @on(Transcript.CommandWanted)
    def _command_wanted(self, event: Transcript.CommandWanted) -> None:
        self._commands.run(event.line)

    @on(Transcript.CopyRequested)
    def _copy_wanted(self, event: Transcript.CopyRequested) -> None:
        self.outside.copy_block(event.piece)

    @on(Transcript.PagerRequested)
    def _pager_wanted(self, event: Transcript.PagerRequested) -> None:
        if event.piece is not None and event.piece.source:
            self.outside.read(event.piece.source)
        else:
            self._commands.run("/pager")

    # keys

    def action_stop(self) -> None:
        """Stop what runs; with nothing running, the second press clears the box into history."""
        self._prompts.clear()
        self._giving_up.escape()

    def action_interrupt(self) -> None:
        """Copy a selection, else stop, else clear the box, else quit at the second press."""
        selected = self.composer.selected_text or self.screen.get_selected_text()
        if selected:
            self.outside.copy(selected)
            self.screen.clear_selection()
        else:
            self._giving_up.interrupt()

    async def action_quit(self) -> None:
        """Quit; while an answer is written only at the second press."""
        self._giving_up.quit()

    def leave(self, return_code: int = 0) -> None:
        """End the app; draft and answer are kept."""
        self._desk.keep()
        self.exit(return_code=return_code)

    def action_run(self, line: str) -> None:
        """Do what a command does: most keys have one."""
        self._commands.run(line)

    def action_page_up(self) -> None:
        """Scroll the conversation up, wherever the focus is."""
        self.transcript.action_page_up()

    def action_page_down(self) -> None:
        """Scroll the conversation down, wherever the focus is."""
        self.transcript.action_page_down()

    # what commands ask of the window

    @property
    def focused_part(self) -> Where | HelpPart:
        """What help is about first: the open sheet, else what has the focus."""
        if part := getattr(self.screen, "HELP_PART", None):
            return part
        return "conversation" if self.transcript.has_focus else "message"

    def open_sheet(self, sheet: Screen[Any], take: Callable[[Any], None] | None = None) -> None:
        """Open a sheet over the chat; ``take`` gets what it returns."""
        self.push_screen(sheet, take)

    def find(self, text: str = "") -> None:
        """Find a text in the conversation, or ask for one."""
        self._finding.open(text)

    @on(FindBar.Changed)
    def _find_changed(self) -> None:
        # what was typed over already is not looked for: keys may come faster than a search ends
        self._finding.look_for(self._finding.bar.text)

    @on(FindBar.Stepped)
    def _find_stepped(self, event: FindBar.Stepped) -> None:
        self._finding.step(event.step)

    def action_find_step(self, step: int) -> None:
        """Go to another match of the search that is open."""
        if not self._finding.step(step):
            self.hint("nothing is looked for: Ctrl+F finds")

    def go(self, change: Callable[[], None]) -> None:
        """Change the conversation; each keeps the draft that stands in the message box."""
        self._desk.go(change)
