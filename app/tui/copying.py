"""What the reader copies, as it was written, and which way it leaves the terminal."""

from collections.abc import Sequence
from pathlib import Path

from textual.app import App

from app import clipboard
from app.tui.pieces import BlockPiece, Piece


def copy(app: App[None], text: str, folder: Path) -> str:
    """Copy a text, or keep one that is too long in ``folder``; returns what to say about it."""
    if program := clipboard.copy_native(text):
        return clipboard.how_copied(text, program)
    if clipboard.fits(text):
        app.copy_to_clipboard(text)
        return clipboard.how_copied(text)
    try:
        path = clipboard.copy_to_file(text, folder)
    except OSError as problem:
        return f"too long for the clipboard, and no file: {problem.strerror}"
    return f"too long for the clipboard: it is in {path}"


def source_at(piece: Piece | None, pieces: Sequence[Piece]) -> str:
    """What copying at ``piece`` takes: its source, or without one the last code block's."""
    if piece is None:
        blocks = (one for one in reversed(pieces) if isinstance(one, BlockPiece) and one.is_code)
        piece = next(blocks, None)
    return piece.source if piece is not None else ""
