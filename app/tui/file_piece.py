"""A file that went along with a message: a line that one may unfold."""

from rich.segment import Segment
from textual.strip import Strip

from app.sessions.entries import FileSpan, MessageEntry
from app.tui.pieces import FoldingPiece
from app.tui.theme import Look
from app.tui.wrap import clip, fold_text
from app.visible import visible, visible_line
from engine.sizes import counted, size_text

NAME_CELLS = 60


class FilePiece(FoldingPiece):
    """The text of one file, folded at first."""

    def __init__(self, span: FileSpan, block: str) -> None:
        """Take the block of a message that holds the file, with its first and last line."""
        super().__init__()
        inside = block.split("\n")[1:-1]
        text = "\n".join(inside)
        self._name = visible_line(span.name, NAME_CELLS)
        self._size = size_text(len(text.encode("utf-8", "replace")))
        self._num_lines = len(inside)
        self._text = visible(text)
        self._is_open = False

    @property
    def source(self) -> str:
        """What the file held."""
        return self._text

    @property
    def is_open(self) -> bool:
        """Whether its text is shown."""
        return self._is_open

    def toggle(self) -> None:
        """Unfold or fold it."""
        self._is_open = not self._is_open
        self.forget()

    def estimate(self, width: int) -> int:
        """A guess at the number of rows."""
        return super().estimate(width) + 1 if self._is_open else 1

    def _draw(self, width: int, look: Look) -> list[Strip]:
        signs = look.signs
        sign = signs.unfolded if self._is_open else signs.folded
        lines = counted(self._num_lines, "line")
        parts = [f"{sign} {self._name}", lines, self._size]
        parts += [] if self._is_open else ["Enter shows it"]
        title = Strip([Segment(clip(f" {signs.dot} ".join(parts), width), look.dim)])
        if not self._is_open:
            return [title]
        rows = fold_text(self._text, max(width - 2, 2))
        side = Segment(f"{signs.side} ", look.faint)
        return [title, *(Strip([side, Segment(row, look.code)]) for row in rows)]

    def _with_gutter(self, row: Strip, look: Look) -> Strip:
        return Strip([Segment(look.signs.bar + " ", look.user), *row])


def split_files(entry: MessageEntry) -> tuple[str, list[FilePiece]]:
    """What a person wrote of a message, and the files below it."""
    content = entry.content
    return entry.words, [FilePiece(one, content[one.start : one.end]) for one in entry.files]
