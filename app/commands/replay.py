"""``qwen38 chat --replay``: a recorded trace in the full screen, with no model and nothing kept."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

from app.commands import options
from app.commands.trace import find
from app.front_end import plain_reason
from app.report import say
from app.trace.read import all_turns
from app.trace.traced import TracedTurn
from engine.errors import RequestError
from engine.settings.load import load_settings


def play(file: Path, speed: float, sets: Sequence[str] | None, *, is_alone: bool) -> int:
    """Play the trace ``file`` at ``speed``; ``is_alone`` says that no option asks for a model.

    Raises:
        TraceError: the file is no trace, or holds no turn.
        RequestError: there is no screen to play it on, or other options speak against it.
    """
    if not is_alone:
        raise RequestError("--replay opens no model.", "Leave the other options out.")
    turns = list(all_turns(find(str(file)), say))
    if reason := plain_reason():
        raise RequestError(
            f"A replay needs the full screen, but {reason}.",
            "'qwen38 trace FILE' tells what it holds.",
        )
    from app.launcher import supervise

    return supervise(lambda: _screen(turns, speed, sets))


def _screen(turns: Sequence[TracedTurn], speed: float, sets: Sequence[str] | None) -> int:
    from app.trace.replay import ReplayEngine, prompts_of
    from app.tui.run import run_chat

    with tempfile.TemporaryDirectory(prefix="qwen38-replay-") as folder:
        nowhere: dict[str, object] = {
            "chat.save": False,
            "paths.data": folder,
            "paths.state": folder,
        }
        settings, sources = load_settings(options.as_settings(nowhere, sets))
        engine = ReplayEngine(turns, speed)
        return run_chat(
            settings, sources, None, lambda _progress, _cancel: engine, prompts=prompts_of(turns)
        )
