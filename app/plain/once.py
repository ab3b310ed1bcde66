"""Chat with a pipe on stdin: all of it is one message, answered once and kept as a session."""

from app.commands.sessions import store_of
from app.live import LiveSettings
from app.opening import Plan
from app.plain.chat import answer
from app.plain.loading import load
from app.plain.state import PlainState
from app.sessions.history import PromptHistory
from app.streams import read_prompt


def answer_stdin(chosen: Plan, session_id: str | None) -> int:
    """Answer what stdin holds; returns the exit code."""
    text = read_prompt()
    store = store_of(chosen.settings)
    engine = load(chosen)
    try:
        info = engine.info
        session = (
            store.open(session_id)
            if session_id
            else store.create(info.model, info.profile, chosen.settings.chat.system)
        )
        history = PromptHistory(chosen.settings.state_dir / "history.jsonl")
        state = PlainState(engine, store, session, LiveSettings.of(chosen.sources), history)
        state.tell_warnings()
        try:
            session.add_message("user", text)
            return answer(state).exit_code
        finally:
            session.close()
    finally:
        engine.close()
