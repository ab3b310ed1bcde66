"""Nothing that a terminal would obey passes the door, whole or in pieces."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.visible import cells, visible, visible_line

HOSTILE = [
    "\x1b]52;c;cm0gLXJmIH4=\x07",  # writes the clipboard
    "\x1b[2J\x1b[H",  # clears the screen
    "\x1b]0;title\x1b\\",
    "\x1b]8;;http://evil.example\x1b\\link\x1b]8;;\x1b\\",
    "\x9b31mred",  # C1 CSI
    "\x90payload\x9c",  # C1 DCS
    "\x1bP+q544e\x1b\\",  # asks for terminal capabilities
    "\x1b[6n",  # asks for the cursor, which answers into the input
    "rm -rf \u202e fdp.exe",  # bidi override
    "\u2066isolate\u2069",
    "tag\U000e0041\U000e0042\U000e007f",  # hidden text
    "over\rwrite",
    "back\b\b\bspace",
    "null\x00byte",
    "\x0e shift out",
    "bell\x07",
    "\ud800 lone surrogate",
    "para\u2029graph",
    "\ufeffbom and zero\u200bwidth",
]


def is_obeyed(sign: str) -> bool:
    return (
        (unicodedata.category(sign) in ("Cc", "Cs") and sign not in "\n\t")
        or sign in "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c"
        or 0xE0000 <= ord(sign) <= 0xE007F
    )


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_becomes_signs(text):
    shown = visible(text)
    assert not any(map(is_obeyed, shown))
    assert len(shown) == len(text)
    shown.encode()


@given(st.text(st.characters()))
def test_any_text_is_safe_and_the_same_in_pieces(text):
    shown = visible(text)
    assert not any(map(is_obeyed, shown))
    assert shown == "".join(map(visible, text))
    assert visible(shown) == shown


@pytest.mark.parametrize(
    "text", ["a\n\tb", "né 漢字", "👩\u200d💻", "❤\ufe0f", "[bold]x[/]", "\u200cپ", "e\u0301"]
)
def test_people_s_text_stays(text):
    assert visible(text) == text


def test_a_title_is_one_line_of_bounded_width():
    assert visible_line("  two\nlines \x1b[2J ") == "two lines ␛[2J"
    assert visible_line("x" * 100, 10) == "x" * 9 + "…"
    assert visible_line("x" * 10, 10) == "x" * 10
    assert visible_line("漢" * 50, 9) == "漢漢漢漢…"


@given(st.text(), st.integers(2, 80))
def test_a_title_never_grows_over_its_width(text, width):
    line = visible_line(text, width)
    assert sum(map(cells, line)) <= width
    assert "\n" not in line


def test_a_megabyte_is_quick():
    assert visible_line("word " * 200_000, 40).startswith("word word")
    assert len(visible("\x1b[0m" * 250_000)) == 1_000_000
