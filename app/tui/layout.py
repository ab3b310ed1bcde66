"""Where every piece of the transcript lies: rows above it, without drawing what nobody sees."""

from bisect import bisect_right
from itertools import accumulate

from app.tui.pieces import Piece
from app.tui.theme import Look


class Layout:
    """Pieces one below the other at one width. Heights of pieces never shown are guesses."""

    def __init__(self) -> None:
        self.pieces: list[Piece] = []
        self._tops: list[int] = [0]
        self._num_valid = 0
        self._width = 0
        self._look: Look | None = None

    def use(self, width: int, look: Look) -> None:
        """Lay out for another width or look."""
        if (width, look) != (self._width, self._look):
            self._width, self._look = width, look
            self._num_valid = 0

    def splice(self, at: int, count: int, pieces: list[Piece]) -> None:
        """Replace ``count`` pieces at ``at``."""
        self.pieces[at : at + count] = pieces
        self.changed(at)

    def changed(self, at: int) -> None:
        """Note that the height of the piece at ``at`` may have changed."""
        self._num_valid = min(self._num_valid, at)

    def index_of(self, piece: Piece) -> int:
        """Where a piece is; those near the end are found first."""
        for index in range(len(self.pieces) - 1, -1, -1):
            if self.pieces[index] is piece:
                return index
        return -1

    @property
    def tops(self) -> list[int]:
        """The first row of every piece, and behind them the number of rows."""
        if self._num_valid < len(self.pieces) or len(self._tops) != len(self.pieces) + 1:
            self._update()
        return self._tops

    def _update(self) -> None:
        look = self._look
        keep = min(self._num_valid, len(self._tops) - 1)
        base = self._tops[keep]
        if look is None:
            self._tops = [0] * (len(self.pieces) + 1)
            return
        heights = (piece.height(self._width, look) for piece in self.pieces[keep:])
        self._tops[keep:] = accumulate(heights, initial=base)
        self._num_valid = len(self.pieces)

    @property
    def num_rows(self) -> int:
        """Rows of everything."""
        return self.tops[-1]

    def at_row(self, row: int) -> tuple[int, int]:
        """The piece that holds a row, and the row inside it."""
        tops = self.tops
        index = min(max(bisect_right(tops, row) - 1, 0), max(len(self.pieces) - 1, 0))
        return index, row - tops[index]

    def draw(self, first_row: int, num_rows: int) -> bool:
        """Draw the pieces that these rows show; whether a guess turned out wrong."""
        look = self._look
        if look is None or not self.pieces:
            return False
        start, _ = self.at_row(max(first_row, 0))
        tops = self.tops
        row = tops[start]
        first_wrong = -1
        for index in range(start, len(self.pieces)):
            if row >= first_row + num_rows:
                break
            piece = self.pieces[index]
            if not piece.is_drawn(self._width, look):
                guess = tops[index + 1] - tops[index]
                if len(piece.rows(self._width, look)) != guess and first_wrong < 0:
                    first_wrong = index
            row += piece.height(self._width, look)
        if first_wrong >= 0:
            self.changed(first_wrong)
        return first_wrong >= 0
