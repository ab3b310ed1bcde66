"""Writing the message in the person's own editor, with the screen put aside."""

import shlex
import subprocess
import tempfile
from pathlib import Path

from textual.app import App, SuspendNotSupported

from engine.settings import environment


def edit_outside(app: App[None], text: str) -> tuple[str, str]:
    """Open the editor on ``text``; returns the new text and a problem in words, if any."""
    command = shlex.split(environment.editor())
    with tempfile.TemporaryDirectory(prefix="qwen38-") as folder:
        path = Path(folder) / "message.md"
        path.write_text(text, encoding="utf-8", errors="replace")
        try:
            with app.suspend():
                done = subprocess.run([*command, str(path)], check=False)
            if done.returncode:
                return text, f"the editor {command[0]} ended with code {done.returncode}"
            return path.read_text(encoding="utf-8", errors="replace").rstrip("\n"), ""
        except SuspendNotSupported:
            return text, "this terminal cannot be handed to an editor"
        except OSError as problem:
            return text, f"the editor {command[0]} does not start: {problem.strerror}"
