"""The person's own programs: an editor for the message, a pager for a long block.

The screen is put aside meanwhile; what they are given has passed the one door.
"""

import shlex
import subprocess
import tempfile
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
    command: list[str] = []
    try:
        command = shlex.split(command_line)
        with app.suspend():
            done = subprocess.run([*command, str(path)], check=False)
    except SuspendNotSupported:
        return f"this terminal cannot be handed to the {what}"
    except (OSError, ValueError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else problem
        return f"the {what} {command_line} does not start: {reason}"
    if done.returncode:
        return f"the {what} {command[0]} ended with code {done.returncode}"
    return ""
