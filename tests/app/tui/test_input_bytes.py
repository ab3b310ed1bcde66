"""What the terminal sends becomes text: broken bytes, and escape characters in a paste."""

import pytest
from textual.events import MouseDown

from app.tui.input_bytes import KeyParser, TerminalText

BEGIN, END = b"\x1b[200~", b"\x1b[201~"
COLOURED = b"x" + BEGIN + b"one \x1b[31mred\x1b[0m caf\xc3\xa9 \x1b" + END + b"\x1b[A"


def test_keys_go_through_as_they_are():
    text = TerminalText()
    assert [text.decode(one) for one in (b"\x1b", b"\x1b[A", b"\x11")] == ["\x1b", "\x1b[A", "\x11"]


def test_bytes_that_are_no_utf8_become_replacement_characters():
    text = TerminalText()
    assert text.decode(b"caf\xe9 \xff") == "caf\ufffd \ufffd"
    assert text.decode(b"ok") == "ok"


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 100])
def test_an_escape_in_a_paste_is_text_however_the_bytes_arrive(size):
    text = TerminalText()
    parts = [COLOURED[at : at + size] for at in range(0, len(COLOURED), size)]
    assert "".join(text.decode(part) for part in parts) == (
        "x\x1b[200~one ␛[31mred␛[0m café ␛\x1b[201~\x1b[A"
    )


def test_a_second_paste_is_one_again():
    text = TerminalText()
    twice = BEGIN + b"a\x1b" + END + BEGIN + b"\x1bb" + END
    assert text.decode(twice) == "\x1b[200~a␛\x1b[201~\x1b[200~␛b\x1b[201~"


@pytest.mark.parametrize("report", ["24;80;0;0", "0;0;0;0", "0;0;480;800", "24;80;480;0"])
def test_a_window_of_no_known_pixels_has_a_mouse_in_cells(report):
    parser = KeyParser()
    list(parser.feed(f"\x1b[48;{report}t"))
    (event,) = parser.feed("\x1b[<0;5;7M")
    assert isinstance(event, MouseDown)
    assert (event.x, event.y) == (4, 6)


def test_a_window_of_known_pixels_has_a_mouse_in_pixels():
    parser = KeyParser()
    list(parser.feed("\x1b[48;24;80;480;800t"))
    (event,) = parser.feed("\x1b[<0;41;61M")
    assert isinstance(event, MouseDown)
    assert (event.x, event.y) == (4, 3)
