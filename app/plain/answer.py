"""One answer as it is written: text on stdout, thinking and notices on stderr, all of it kept."""

import sys
from dataclasses import dataclass

from app.interrupt import StopOnSignal
from app.plain.spoken import SpokenAnswer
from app.report import FAILED, OK, exit_code, one_line, say
from app.sessions.session import AnswerWriter
from app.stats import stats_line
from app.streams import SHORT_READ_S, ReadLine, is_terminal, write_data
from app.visible import visible
from engine.errors import EngineError
from engine.records import TurnRecord
from engine.settings import environment
from engine.types import ChatEngine, Event, NoticeRaised, Request, TextArrived, TurnEnded


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an answer ended.

    ``ends_program`` when a signal asked for more than its end; ``is_refused`` when the engine never
    began with it.
    """

    exit_code: int
    ends_program: bool = False
    is_refused: bool = False


def stream_answer(
    engine: ChatEngine,
    request: Request,
    writer: AnswerWriter,
    show_thinking: str,
    *,
    spoken: bool = False,
) -> Outcome:
    """Generate an answer, show it as it comes and keep it; whatever happens, its text is kept.

    Args:
        engine: the loaded model.
        request: the turn.
        writer: where the session takes the text.
        show_thinking: the setting ``chat.show_thinking``.
        spoken: say who speaks and what is read, for a screen reader.

    Raises:
        BrokenPipeError: nobody reads stdout any more; the answer is kept as stopped.
        OutputClosedError: stdout cannot be written; the answer is kept as stopped.
    """
    view = _View(shows_thinking=show_thinking in ("live", "open"), spoken=spoken)
    record: TurnRecord | None = None
    has_begun = is_refused = False
    code = OK
    with StopOnSignal() as interrupt:
        try:
            for event in engine.generate(request, interrupt.stop):
                has_begun = True
                if isinstance(event, TextArrived):
                    writer.append(event.channel, event.text)
                elif isinstance(event, TurnEnded):
                    record = event.record
                    writer.finish(record)
                view.show(event)
            if record is None:
                raise EngineError("The engine ended without an answer.", "Send the message again.")
        except BaseException as error:
            if record is None:
                writer.abort(one_line(error))
            view.end()
            if not _is_told(error):
                raise
            is_refused = not has_begun and isinstance(error, EngineError)
            code = exit_code(error)
    view.end()
    if record is not None:
        say(stats_line(record))
    if record is not None and record.finish_reason == "error":
        say(f"The answer is cut off: {record.error}")
        code = FAILED
    return Outcome(interrupt.exit_code or code, interrupt.ends_program, is_refused)


def _is_told(error: BaseException) -> bool:
    """Tell what the conversation survives; False for what ends the program."""
    if isinstance(error, BrokenPipeError) or not isinstance(error, Exception | KeyboardInterrupt):
        return False
    if isinstance(error, EngineError):
        if error.title == "Output":
            return False
        say(f"{error.title}: {error}")
    elif isinstance(error, KeyboardInterrupt):
        say("Stopped at once; what was written until then is kept.")
    else:
        say(f"The engine broke: {one_line(error)}. The conversation is kept; try /redo.")
    return True


class _View:
    """Where the cursor is, so that text, thinking and notices do not run into each other."""

    def __init__(self, *, shows_thinking: bool, spoken: bool) -> None:
        self._shows_thinking = shows_thinking and is_terminal(sys.stderr)
        self._said_thinking = False
        self._is_mid_line = False
        self._last = "\n"
        self._channel = "answer"
        self._spoken = SpokenAnswer() if spoken else None
        self._reading = ReadLine("the conversation", SHORT_READ_S)
        can_dim = is_terminal(sys.stderr) and not environment.no_color() and not spoken
        self._dim = ("\x1b[2m", "\x1b[0m") if can_dim else ("", "")

    def show(self, event: Event) -> None:
        if self._spoken is None and self._reading.takes(event):
            return
        if self._spoken is not None:
            if isinstance(event, TextArrived) and event.channel != self._channel:
                self.end_line()
            self._spoken.before(event)
        match event:
            case TextArrived(text, channel):
                if channel != self._channel:
                    self.end_line()
                    self._channel = channel
                self._thinking(text) if channel == "thinking" else self._answer(text)
            case NoticeRaised(text):
                self.end_line()
                say(text)
            case _:
                pass

    def end_line(self) -> None:
        """Go to the beginning of a line, on a terminal only: a pipe gets nothing amid the text."""
        if self._is_mid_line and is_terminal(sys.stdout):
            write_data("\n")
        self._is_mid_line = False

    def end(self) -> None:
        """End the last line of the answer, in a pipe too."""
        self._reading.clear()
        self.end_line()
        if not is_terminal(sys.stdout) and not self._last.endswith("\n"):
            self._last = "\n"
            write_data("\n")

    def _answer(self, text: str) -> None:
        write_data(text)
        self._last = text
        self._is_mid_line = not text.endswith("\n")

    def _thinking(self, text: str) -> None:
        if self._shows_thinking:
            before, after = self._dim
            sys.stderr.write(f"{before}{visible(text)}{after}")
            sys.stderr.flush()
            self._is_mid_line = not text.endswith("\n")
        elif not self._said_thinking and self._spoken is None:
            say("(thinking)")
            self._said_thinking = True
