"""Reading a message with an editing prompt, on a terminal that can carry one."""

import time
from asyncio import get_running_loop
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Protocol

from prompt_toolkit import PromptSession
from prompt_toolkit.application import run_in_terminal
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import History
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import Output, create_output
from prompt_toolkit.output.vt100 import Vt100_Output

from app.attached import mention_of
from app.file_names import completion_at
from app.interrupt import EndOnSignal
from app.plain.typed_ahead import lines_ahead
from app.report import say
from app.sessions.history import PromptHistory
from app.slash import SLASH_COMMANDS
from app.visible import visible_line
from engine.errors import RequestError
from engine.settings import environment
from engine.settings.declared import KNOWN

PROMPT = "you> "
DRAFT_CELLS = 200
"""How much of a draft a terminal is told that cannot edit it."""

DRAFT_SECONDS = 1.0
"""Most seconds of typing that a crash can cost."""


class Reader(Protocol):
    """Where messages come from."""

    def read(self, draft: str) -> str | None:
        """The next message, begun with ``draft``; None at the end of input."""
        ...


class EditingReader:
    """Messages of many lines with history, completion and $EDITOR.

    Args:
        ends: asks for the end of the program, which ends the prompt.
        history: prompts of earlier runs.
        keep_draft: called with the unsent text at most once a second, and at the end.
        source: where keys come from; the terminal when None.
        target: where the prompt is drawn; the terminal when None.
    """

    def __init__(
        self,
        ends: EndOnSignal,
        history: PromptHistory,
        keep_draft: Callable[[str], None],
        source: Input | None = None,
        target: Output | None = None,
    ) -> None:
        self._ends = ends
        self._keep_draft = keep_draft
        self._kept_at = 0.0
        self._prompt: PromptSession[str] = PromptSession(
            PROMPT,
            multiline=True,
            prompt_continuation="...> ",
            history=_SharedHistory(history),
            auto_suggest=AutoSuggestFromHistory(),
            completer=_Completer(),
            complete_while_typing=False,
            enable_open_in_editor=True,
            key_bindings=_keys(),
            input=source,
            output=target or _quiet_output(),
            reserve_space_for_menu=4,
        )
        self._prompt.default_buffer.on_text_changed += self._typed

    def read(self, draft: str) -> str | None:
        """The next message, begun with ``draft``.

        A line that was sent before the prompt stood is the message; of several, which may be a
        paste, it is for the person to say.

        Raises:
            SystemExit: the end of the program was asked for; what was typed is the draft.
        """
        self._ends.expect_no_end()
        try:
            ahead = lines_ahead(self._prompt.input)
            if len(ahead) == 1 and ahead[0].strip() and not draft:
                say(f"{PROMPT}{visible_line(ahead[0], DRAFT_CELLS)}")
                self._prompt.history.append_string(ahead[0])
                return ahead[0]
            begins = "\n".join(filter(None, (draft, *ahead)))
            return self._prompt.prompt(default=begins, pre_run=self._watch)
        except EOFError:
            if self._ends.signal is None:
                self._keep_draft("")
                return None
        except BaseException:
            self._keep_draft(self._prompt.default_buffer.text)
            raise
        self._keep_draft(self._prompt.default_buffer.text)
        self._ends.expect_no_end()
        return None

    def _watch(self) -> None:
        """Have the prompt that begins end when the end of the program is asked for."""
        loop, app = get_running_loop(), self._prompt.app

        def leave() -> None:
            loop.remove_reader(self._ends)
            if not app.is_done:
                app.exit(exception=EOFError())

        loop.add_reader(self._ends, leave)

    def _typed(self, buffer: Buffer) -> None:
        if time.monotonic() - self._kept_at >= DRAFT_SECONDS:
            self._kept_at = time.monotonic()
            self._keep_draft(buffer.text)


class _SharedHistory(History):
    """The history file of both front ends, as prompt_toolkit reads it: newest first."""

    def __init__(self, history: PromptHistory) -> None:
        super().__init__()
        self._history = history

    def load_history_strings(self) -> Iterable[str]:
        return reversed(self._history.entries())

    def store_string(self, string: str) -> None:
        self._history.add(string)


class _Completer(Completer):
    """Names of slash commands, of settings behind /set, and of files behind @."""

    def get_completions(
        self,
        document: Document,
        complete_event: CompleteEvent,  # noqa: ARG002  part of prompt_toolkit's interface
    ) -> Iterable[Completion]:
        text = document.text_before_cursor
        if text.startswith("/set "):
            typed = text.removeprefix("/set ")
            names = [name for name in KNOWN if name.startswith(typed)]
            yield from (Completion(name, -len(typed)) for name in names)
        elif found := completion_at(text):
            for name in found.names:
                with suppress(RequestError):
                    yield Completion(mention_of(name), -len(found.typed))
        elif text.startswith("/") and " " not in text:
            for one in SLASH_COMMANDS:
                if one.name.startswith(text[1:]):
                    yield Completion(f"/{one.name}", -len(text), display_meta=one.help)


def _quiet_output() -> Output:
    """The terminal, which is never asked where its cursor is.

    A terminal that does not answer gets a warning after two seconds, and an answer that comes when
    nobody listens any more is typed into the person's shell.
    """
    output = create_output()
    if isinstance(output, Vt100_Output):
        output.enable_cpr = False
    return output


def _keys() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter")
    def _send(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.document.text_before_cursor.endswith("\\"):
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        elif buffer.text.strip():
            buffer.validate_and_handle()

    @keys.add("c-x", "c-e")
    def _edit(event: KeyPressEvent) -> None:
        if environment.editor():
            event.current_buffer.open_in_editor()
        else:
            run_in_terminal(lambda: say("No editor was found: set EDITOR to one."))

    @keys.add("c-z")
    def _stop(event: KeyPressEvent) -> None:
        event.app.suspend_to_background(suspend_group=False)  # the launcher stops with it

    @keys.add("escape", "enter")
    @keys.add("c-j")
    def _new_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @keys.add("c-c")
    def _clear(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.text:
            buffer.append_to_history()
            buffer.reset()
        else:
            event.app.exit(exception=EOFError())

    return keys
