"""The person's own programs: an editor for the message, a pager for a long block.

The screen is put aside meanwhile; what they are given has passed the one door.
"""

import contextlib
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Generator, Sequence
from pathlib import Path

from textual.app import App, SuspendNotSupported

from app.visible import visible
from engine.settings import environment


def edit_outside(app: App[None], text: str) -> tuple[str, str]:
    """Open the editor on ``text``; returns the new text and a problem in words, if any."""
    with tempfile.TemporaryDirectory(prefix="qwen38-") as folder:
        path = Path(folder) / "message.md"
        path.write_text(text, encoding="utf-8", errors="replace")
        if problem := _run(app, "editor", environment.editor(), path):
            return text, problem
        return path.read_text(encoding="utf-8", errors="replace").rstrip("\n"), ""


def read_outside(app: App[None], text: str) -> str:
    """Open the pager on ``text``; returns a problem in words, if any."""
    with tempfile.TemporaryDirectory(prefix="qwen38-") as folder:
        path = Path(folder) / "block.md"
        path.write_text(visible(text) + "\n", encoding="utf-8", errors="replace")
        return _run(app, "pager", environment.pager(), path)


def _run(app: App[None], what: str, command_line: str, path: Path) -> str:
    """Run a program on a file with the screen put aside; returns a problem in words, if any."""
    if not command_line:
        return f"no {what} was found: set {what.upper()} to one"
    try:
        command = shlex.split(command_line)
        with app.suspend():
            return _problem_of(what, [*command, str(path)])
    except SuspendNotSupported:
        return f"this terminal cannot be handed to the {what}"
    except ValueError as problem:
        return f"the {what} {command_line} does not start: {problem}"


def _problem_of(what: str, command: Sequence[str]) -> str:
    """Run a program; raises nothing, for then the screen would never be taken up again."""
    try:
        with subprocess.Popen(command) as program, _interrupts_are_its_own():
            code = program.wait()
    except (OSError, ValueError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else problem
        return f"the {what} {command[0]} does not start: {reason}; set {what.upper()} to another"
    return f"the {what} {command[0]} ended with code {code}" if code else ""


@contextlib.contextmanager
def _interrupts_are_its_own() -> Generator[None]:
    """Ctrl+C, which the terminal sends to both, is the program's key and does not end the chat."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
