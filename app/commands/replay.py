"""``qwen38 chat --replay``: a recorded trace in the full screen, with no model and nothing kept."""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from app.commands.trace import find
from app.front_end import plain_reason
from app.report import say
from app.trace.read import all_turns
from app.trace.traced import TracedTurn
from engine.errors import RequestError
from engine.settings.load import load_settings


def play(file: Path, speed: float, given: Mapping[str, object], *, is_alone: bool) -> int:
    """Play a trace.

    Args:
        file: the trace.
        speed: how many times as fast as it was recorded.
        given: settings of the command line, by full name.
        is_alone: no option asks for a model, or for another form than the screen.

    Raises:
        TraceError: the file is no trace, or holds no turn.
        RequestError: there is no screen to play it on, or other options speak against it.
        SettingsError: a setting is refused.
    """
    if not is_alone:
        raise RequestError(
            "--replay opens no model and needs the screen.", "Leave the other options out."
        )
    load_settings(given)  # a value that is refused is so before anything is drawn
    turns = list(all_turns(find(str(file)), say))
    if reason := plain_reason():
        raise RequestError(
            f"A replay needs the full screen, but {reason}.",
            "'qwen38 trace FILE' tells what it holds.",
        )
    from app.launcher import supervise

    return supervise(lambda: _screen(turns, speed, given))


def _screen(turns: Sequence[TracedTurn], speed: float, given: Mapping[str, object]) -> int:
    from app.trace.replay import ReplayEngine, prompts_of
    from app.tui.run import run_chat

    with tempfile.TemporaryDirectory(prefix="qwen38-replay-") as folder:
        nowhere = {"chat.save": False, "paths.data": folder, "paths.state": folder}
        settings, sources = load_settings({**given, **nowhere})
        engine = ReplayEngine(turns, speed)
        return run_chat(
            settings, sources, None, lambda _progress, _cancel: engine, prompts=prompts_of(turns)
        )
