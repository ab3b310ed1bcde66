"""Chat with a pipe on stdin: all of it is one message, answered once and kept as a session."""

from app.attached import Outgoing
from app.commands.sessions import store_of
from app.live import LiveSettings
from app.opening import Plan
from app.plain.chat import send
from app.plain.loading import load
from app.plain.state import PlainState
from app.report import FAILED, say
from app.sessions.history import PromptHistory
from app.sessions.session import Session
from app.slash import typed_text
from app.streams import read_prompt
from app.trace.record import Recorder


def answer_stdin(chosen: Plan, session_id: str | None, recorder: Recorder) -> int:
    """Answer what stdin holds; returns the exit code, which is no 0 when it could not be kept."""
    text = read_prompt()
    store = store_of(chosen.settings)
    opener = recorder.wrap(chosen.open)
    engine = load(opener)
    try:
        info = engine.info
        session = (
            store.open(session_id)
            if session_id
            else store.create(info.model, info.profile, chosen.settings.chat.system)
        )
        history = PromptHistory(chosen.settings.state_dir / "history.jsonl")
        state = PlainState(
            engine, opener, store, session, LiveSettings.of(chosen.sources), history, recorder
        )
        state.tell_warnings()
        try:
            outcome = send(state, Outgoing(text))
            if outcome.is_refused and chosen.settings.chat.save and not session.draft:
                session.draft = typed_text(text)
        finally:
            session.close()
            store.close()
            _tell_unsaved(session)
        return outcome.exit_code if session.is_saved else outcome.exit_code or FAILED
    finally:
        engine.close()


def _tell_unsaved(session: Session) -> None:
    # not the session's own warnings: they speak of a next message
    if not session.is_saved:
        say(f"The conversation was not saved: {session.disk_problem} ({session.path}).")
