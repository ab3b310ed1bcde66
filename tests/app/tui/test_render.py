import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import app.tui
from app.tui.answer import ThinkingPiece, finished_pieces
from app.tui.code import CodeDrawing
from app.tui.pieces import NoticePiece, PromptPiece
from app.tui.render import draw_markdown
from app.tui.theme import ANSI, DARK, LIGHT, get_look
from app.visible import visible
from tests.app.tui.hostile import FORBIDDEN, HOSTILE

LOOKS = [get_look(DARK), get_look(LIGHT), get_look(ANSI, ascii_only=True)]


def texts(source: str, width: int = 60, look=LOOKS[0]) -> list[str]:
    return [strip.text.rstrip() for strip in draw_markdown(source, width, look)]


def test_links_show_their_target_once():
    assert texts("see [the paper](http://x.y/z)") == ["see the paper (http://x.y/z)"]
    assert texts("see <http://x.y>") == ["see http://x.y"]


def test_images_and_html_are_words():
    assert texts("![a cat](http://x/cat.png) <b>bold</b>") == [
        "[a cat] (http://x/cat.png) <b>bold</b>"
    ]


def test_headings_stand_at_the_left():
    assert texts("# One") == ["One"]


def test_numbers_have_full_stops():
    assert texts("9. a\n10. b") == ["  9. a", " 10. b"]


def test_wide_table_fits_and_a_very_narrow_one_becomes_rows():
    head = "| " + " | ".join(f"column {n}" for n in range(5)) + " |"
    table = f"{head}\n{'|---' * 5}|\n| " + " | ".join(["some long cell text"] * 5) + " |"
    wide = texts(table, 60)
    assert max(map(len, wide)) <= 60
    assert "text" in "".join(wide)
    narrow = texts(table, 30)
    assert "column 0: some long cell text" in narrow


def test_colour_never_moves_code():
    code = "def f(a):\n\treturn 'x' * 100  # " + "long " * 30
    drawing = CodeDrawing(code, "python", 40, LOOKS[0])
    before = [strip.text for strip in drawing.strips]
    while not drawing.is_coloured:
        drawing.colour_more()
    assert [strip.text for strip in drawing.strips] == before
    assert any(seg.style and seg.style.color for strip in drawing.strips for seg in strip)


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("look", LOOKS)
def test_nothing_that_a_terminal_obeys_is_drawn(text, look):
    pieces = [
        *finished_pieces(text, first_gap=0),
        PromptPiece(text, text),
        NoticePiece(text, text, "error"),
        ThinkingPiece("open", text),
    ]
    for width in (12, 80):
        for piece in pieces:
            for strip in piece.rows(width, look):
                assert not (FORBIDDEN | {"\n", "\t"}) & set(strip.text)
                for segment in strip:
                    assert segment.style is None or not (segment.style.link or segment.style.meta)


@settings(deadline=None, max_examples=150)
@given(st.text(alphabet="ab *_`#->|[]()!\n\t1.~:<&;漢\u0301", max_size=120), st.integers(10, 60))
def test_any_markdown_draws_within_its_width(text, width):
    for piece in finished_pieces(text, first_gap=0):
        for strip in piece.rows(width, LOOKS[0]):
            assert "\n" not in strip.text


def test_words_of_the_text_are_all_there():
    source = "alpha **beta** `gamma` [delta](http://e)\n\n- zeta\n  - eta\n\n> theta"
    shown = " ".join(texts(source))
    for word in ("alpha", "beta", "gamma", "delta", "http://e", "zeta", "eta", "theta"):
        assert word in shown


def test_no_markup_is_made_from_data():
    folder = Path(app.tui.__file__).parent
    for path in folder.rglob("*.py"):
        source = path.read_text(encoding="utf-8")
        for call in re.finditer(r"\b(Static|Label|notify|OptionList)\((?!Option\b)", source):
            inside = source[call.end() : call.end() + 200]
            assert "markup=False" in inside, f"{path.name}: {call[0]}"
        assert "from_markup" not in source
        assert "visible" in source or path.name not in ("pieces.py", "answer.py", "lines.py")


def test_visible_text_is_what_pieces_keep_for_copying():
    assert PromptPiece("a\x1b[2Jb", "").source == visible("a\x1b[2Jb")
