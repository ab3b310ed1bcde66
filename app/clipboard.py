"""Copying text out of the terminal.

On a desktop of this machine its own program is asked, which answers and takes any length. Anywhere
else OSC 52 reaches the clipboard of the terminal that the person sits at, also over SSH. It has no
answer, and terminals drop what is too long without a word, so above a cap the text goes to a file.
"""

import shutil
import subprocess
from pathlib import Path

from engine.settings import environment
from engine.sizes import counted

NATIVE = {
    "wayland": (("wl-copy",),),
    "x11": (("xclip", "-selection", "clipboard"), ("xsel", "--input", "--clipboard")),
}
"""Programs that take the clipboard's new text on their stdin, by display server."""

NATIVE_SECONDS = 2.0
"""How long a desktop that does not answer is waited for."""

MAX_BYTES = 100_000
"""Longest text sent by OSC 52; kitty, xterm and tmux all take this much."""


def fits(text: str) -> bool:
    """Whether a text is short enough for the terminal's clipboard."""
    return len(text.encode("utf-8", "replace")) <= MAX_BYTES


def copy_to_file(text: str, folder: Path) -> Path:
    """Write a text that is too long for the clipboard; raises ``OSError``."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = folder / "copied.md"
    path.write_text(text, encoding="utf-8", errors="replace")
    return path


def _native_commands() -> list[tuple[str, ...]]:
    """The desktop's programs that are here."""
    known = NATIVE.get(environment.display_server(), ())
    return [command for command in known if shutil.which(command[0])]


def way() -> str:
    """How a text leaves the terminal here: by a program of the desktop, or by OSC 52."""
    if commands := _native_commands():
        return commands[0][0]
    return _by_osc_52()


def copy_native(text: str) -> str:
    """Hand a text to the desktop's clipboard; the name of the program that took it, or nothing."""
    data = text.encode("utf-8", "replace")
    for command in _native_commands():
        try:
            done = subprocess.run(
                command, input=data, timeout=NATIVE_SECONDS, check=False,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.returncode == 0:
            return command[0]
    return ""


def how_copied(text: str, program: str = "") -> str:
    """One sentence on what was copied and which way: by ``program``, or by OSC 52."""
    num_lines = text.count("\n") + 1
    lines = f"copied {counted(num_lines, 'line')}"
    if program:
        return f"{lines} to the clipboard by {program}"
    where = "" if environment.inside_multiplexer() else " to the terminal's clipboard"
    return f"{lines}{where} by {_by_osc_52()}"


def _by_osc_52() -> str:
    through = " through tmux or screen (set-clipboard on)"
    return f"OSC 52{through * environment.inside_multiplexer()}"
