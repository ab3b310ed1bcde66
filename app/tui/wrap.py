"""Folding text into rows of terminal cells, in one go or as it grows."""

from rich.cells import cell_len, chop_cells

TAB = "    "


def fold(line: str, width: int) -> list[str]:
    """Fold one line after blanks, and inside words that are wider than a row.

    All rows but the last stay what they are when text is added at the end of ``line``.
    """
    line = line.replace("\t", TAB)
    width = max(width, 2)
    if cell_len(line) <= width:
        return [line]
    rows: list[str] = []
    row, used = "", 0
    for word in _words(line):
        size = cell_len(word)
        room = cell_len(word.rstrip(" "))
        if used + room <= width:
            row, used = row + word, used + size
            continue
        if row:
            rows.append(row)
        *full, row = chop_cells(word, width) if room > width else [word]
        rows.extend(full)
        used = cell_len(row)
    rows.append(row)
    return rows


def _words(line: str) -> list[str]:
    """Words with the blanks behind them; leading blanks are a word of their own."""
    words: list[str] = []
    start = 0
    at = line.find(" ")
    while at >= 0:
        while at + 1 < len(line) and line[at + 1] == " ":
            at += 1
        words.append(line[start : at + 1])
        start = at + 1
        at = line.find(" ", start)
    if start < len(line):
        words.append(line[start:])
    return words


def fold_text(text: str, width: int) -> list[str]:
    """Fold every line of ``text``."""
    return [row for line in text.split("\n") for row in fold(line, width)]


def clip(text: str, width: int, mark: str = "…") -> str:
    """Cut ``text`` to ``width`` cells; the last one says that something is missing."""
    if cell_len(text) <= width:
        return text
    if width <= 0:
        return ""
    return chop_cells(text, max(width - len(mark), 1))[0] + mark


class GrowingText:
    """Rows of a text that only grows; work is done for what is new, never for what is there."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.rows: list[str] = [""]

    def feed(self, text: str) -> None:
        """Add text at the end."""
        first, *others = text.split("\n")
        self.rows[-1:] = fold(self.rows[-1] + first, self.width)
        for line in others:
            self.rows.extend(fold(line, self.width))
