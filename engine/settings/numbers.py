"""Numbers that a person writes: ASCII digits; Python would take any script's, and underscores."""

import math


def whole_number(text: str) -> int:
    """Read a whole number.

    Raises:
        ValueError: it is none, or too long for one.
    """
    return int(_plain(text))


def real_number(text: str) -> float:
    """Read a number; NaN, which is inside no bounds, is none.

    Raises:
        ValueError: it is none.
    """
    value = float(_plain(text))
    if math.isnan(value):
        raise ValueError(text)
    return value


def _plain(text: str) -> str:
    if not text.isascii() or "_" in text:
        raise ValueError(text)
    return text
