"""Copying text out of the terminal.

OSC 52 reaches the clipboard of the terminal that the person sits at, also over SSH. It has no
answer, and terminals drop what is too long without a word, so above a cap the text goes to a file.
"""

from pathlib import Path

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


def how_copied(text: str, *, inside_multiplexer: bool) -> str:
    """One sentence on what was copied and which way it went."""
    num_lines = text.count("\n") + 1
    way = "OSC 52 through tmux or screen (set-clipboard on)" if inside_multiplexer else "OSC 52"
    return f"copied {num_lines} line{'s' * (num_lines > 1)} to the terminal's clipboard by {way}"
