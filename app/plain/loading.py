"""Opening the model with its progress on stderr; Ctrl+C cancels."""

from app.interrupt import StopOnSignal
from app.opening import DEMO_NOTICE, Opener
from app.plain.spoken import SpokenLoad
from app.report import say
from app.streams import LoadLine
from engine.types import ChatEngine


def load(open_engine: Opener, *, spoken: bool = False) -> ChatEngine:
    """Open the model and say what to know of it, and when it is the demo.

    Args:
        open_engine: opens it.
        spoken: progress as whole lines for a screen reader, not one line that is rewritten.

    Raises:
        EngineError: the model does not open, or the person cancelled.
        SystemExit: a signal asked for the end of the program.
    """
    progress = SpokenLoad() if spoken else LoadLine()
    with StopOnSignal() as interrupt:
        try:
            engine = open_engine(progress, interrupt.stop)
        finally:
            progress.clear()
    if interrupt.ends_program:
        engine.close()
        interrupt.expect_no_end()
    if engine.info.is_demo:
        say(DEMO_NOTICE)
    for notice in engine.info.notices:
        say(notice)
    return engine
