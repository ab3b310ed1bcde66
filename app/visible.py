"""The one door for text that a model, a file, a paste or a checkpoint supplied.

Everything foreign passes `visible` before it reaches a terminal, a widget, a title or a clipboard.
It works per character, one sign for one character, so a sequence that is split over two tokens
needs no state and positions in the text stay what they were. Knows no terminal and no markup.
"""

import unicodedata

BIDI_SIGN = "⇄"
"""Stands for a character that would reorder the line."""

INVISIBLE_SIGN = "␣"
"""Stands for a character that would hide: zero-width space, tag characters, annotations."""

C1_SIGN = "␦"
"""Stands for a C1 control, which some terminals obey like an escape sequence."""

_BIDI = (*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x061C)
_INVISIBLE = (
    *(0x200B, 0xFEFF, 0x180E),
    *range(0x2060, 0x2065),
    *range(0x206A, 0x2070),
    *range(0xFFF9, 0xFFFC),
    *range(0xE0000, 0xE0080),
)


def _table() -> dict[int, str]:
    signs = {code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\n\t"}
    signs[0x7F] = "␡"
    signs.update(dict.fromkeys(range(0x80, 0xA0), C1_SIGN))
    signs.update(dict.fromkeys(_BIDI, BIDI_SIGN))
    signs.update(dict.fromkeys(_INVISIBLE, INVISIBLE_SIGN))
    signs.update(dict.fromkeys((0x2028, 0x2029), "␤"))
    signs.update(dict.fromkeys(range(0xD800, 0xE000), "\N{REPLACEMENT CHARACTER}"))
    return signs


_SIGNS = _table()


def visible(text: str) -> str:
    r"""Return ``text`` with every character that a terminal would obey replaced by a sign.

    Newlines, tabs, zero-width joiners and variation selectors stay; other C0 and C1 controls, DEL,
    bidi controls, tag characters and lone surrogates become one sign each.
    """
    return text.translate(_SIGNS)


def visible_line(text: str, width: int = 60) -> str:
    """Return ``text`` as one line of at most ``width`` cells, for titles and lists.

    Runs of white space become one space; what does not fit is cut and marked with an ellipsis.
    """
    # A title needs its first cells only: a megabyte of paste is not worth splitting.
    line = visible(" ".join(text[: width * 20].split()))
    if sum(map(cells, line)) <= width:
        return line
    num_cells = 1
    for index, sign in enumerate(line):
        num_cells += cells(sign)
        if num_cells > width:
            return line[:index] + "…"
    return line


def cells(sign: str) -> int:
    """Number of terminal cells of one character."""
    if unicodedata.combining(sign) or sign in "\u200c\u200d" or "\ufe00" <= sign <= "\ufe0f":
        return 0
    return 2 if unicodedata.east_asian_width(sign) in "WF" else 1
