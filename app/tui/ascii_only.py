"""What ``--ascii`` keeps off the terminal, whoever drew it: a sign for a sign, cell for cell.

Letters stay what they are: a text in Greek is not ours to spell. Frames, bars, bullets, ellipses
and the signs of `app.visible` become ASCII, in what libraries draw as in what we do.
"""

from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

_SAME = {
    "~": "…",
    ".": "·░▁▂",
    "#": "▃▄▅▆▇█▉▊▋▓▒▔",
    "|": "│┃║╎▌▍▎▏▐▕╵╷",
    "-": "─━═╌╴╶╸╺‐‑–—",
    "+": "┌┐└┘├┤┬┴┼╭╮╯╰┏┓┗┛┣┫┳┻╋╔╗╚╝╠╣╦╩╬╇╈┡┩╞╡╪",
    "*": "•●◦▪★✓",
    "o": "○",
    ">": "▸▶›→❯»",
    "<": "◀‹←«",
    "v": "▾▼↓",
    "^": "▲↑",
    "_": "␣",
    "> ": "\N{RIGHT-POINTING MAGNIFYING GLASS}",
    "?": "⇄␦␤␡\N{REPLACEMENT CHARACTER}",
}
_PICTURES = range(0x2400, 0x2420)
"""Those of control characters."""

_TABLE = {
    **{ord(sign): ascii_sign for ascii_sign, signs in _SAME.items() for sign in signs},
    **dict.fromkeys(_PICTURES, "?"),
}


class AsciiOnly(LineFilter):
    """A last look at every row of the screen."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The row with ASCII in place of what draws."""
        del background
        return [
            one
            if one.text.isascii()
            else Segment(one.text.translate(_TABLE), one.style, one.control)
            for one in segments
        ]
