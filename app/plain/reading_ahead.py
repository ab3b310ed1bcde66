"""Having a model that was just opened read the conversation, before the next message is there."""

from app.interrupt import StopOnSignal
from app.opening import request_of
from app.plain.spoken import SpokenReading
from app.plain.state import PlainState
from app.report import say
from app.streams import ReadLine
from engine.errors import EngineError
from engine.types import NoticeRaised


def read_ahead(state: PlainState) -> None:
    """Read what there is, with its progress on stderr; Ctrl+C leaves the rest for the next message.

    What goes wrong is said: the next message meets it again, and nothing is lost.

    Raises:
        SystemExit: a signal asked for the end of the program.
    """
    messages = state.session.request_messages()
    if not messages or messages[-1].role != "assistant":
        return
    progress = SpokenReading() if state.settings.chat.a11y else ReadLine("the conversation")
    with StopOnSignal() as interrupt:
        try:
            request = request_of(state.settings, state.engine.info, messages)
            for event in state.engine.read_ahead(request, interrupt.stop):
                if isinstance(event, NoticeRaised):
                    progress.clear()
                    say(event.text)
                else:
                    progress(event)
        except EngineError as error:
            progress.clear()
            say(f"{error.title}: {error}")
        finally:
            progress.clear()
    interrupt.expect_no_end()
    if interrupt.stop.is_set():
        say("The rest is read with the next message.")
