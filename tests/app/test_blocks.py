import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.blocks import Block, BlockCutter, cut
from app.tui.answer import TailPiece
from app.tui.theme import DARK, get_look
from app.tui.wrap import GrowingText, fold, fold_text

CASES = [
    ("one\n\ntwo", ["one", "two"]),
    ("text\n```py\na\n\nb\n```\nafter", ["text", "```py\na\n\nb\n```", "after"]),
    ("- a\n\n- b\n\n  more\n\nend", ["- a\n\n- b\n\n  more", "end"]),
    ("intro:\n- a\n\n- b\n\nend", ["intro:\n- a\n\n- b", "end"]),
    ("1. a\n   ```\n   x\n\n   y\n   ```\n2. b\n\nend", None),
    ("| a |\n|---|\n| 1 |\n\nend", ["| a |\n|---|\n| 1 |", "end"]),
    ("> q\n> r\n\nend", ["> q\n> r", "end"]),
    ("    code\n\n    more\n\nend", ["    code\n\n    more", "end"]),
    ("~~~\n```\n~~~\nx", ["~~~\n```\n~~~", "x"]),
    ("````\n```\n````\nx", ["````\n```\n````", "x"]),
    ("```\nunclosed", ["```\nunclosed"]),
    ("`` ` ``\n\nx", ["`` ` ``", "x"]),
    ("", []),
    ("\n\n\n", []),
]


@pytest.mark.parametrize(("text", "wanted"), CASES)
def test_cuts_only_where_nothing_is_open(text, wanted):
    found = [block.source for block in cut(text)]
    if wanted is None:
        assert found[0].endswith("2. b")
    else:
        assert found == wanted


PARTS = [
    "a",
    " ",
    "\n",
    "\n\n",
    "```",
    "```py\n",
    "- x",
    "1. y",
    "> z",
    "| t |",
    "~~~",
    "    i",
    "`",
]


@given(st.lists(st.sampled_from(PARTS), max_size=40), st.integers(1, 5))
def test_cutting_while_it_arrives_equals_cutting_the_whole(parts, step):
    text = "".join(parts)
    cutter = BlockCutter()
    found: list[Block] = []
    for at in range(0, len(text), step):
        found += cutter.feed(text[at : at + step])
    found += cutter.finish()
    assert found == cut(text)


@given(st.lists(st.sampled_from(PARTS), max_size=40))
def test_no_line_is_lost(parts):
    text = "".join(parts)
    kept = [line for block in cut(text) for line in block.source.split("\n") if line.strip()]
    assert kept == [line for line in text.split("\n") if line.strip()]


def test_reference_links_keep_the_text_whole():
    assert len(cut("see [a]\n\n[a]: http://x.y")) == 1


def test_code_block_knows_language_and_code():
    block = cut("```python title=x\n  a\n\nb\n```")[0]
    assert (block.kind, block.language, block.code) == ("code", "python", "  a\n\nb")


@pytest.mark.parametrize("partial", ["`", "``", "```", "```py", "~", "~~~"])
def test_a_line_that_may_become_a_fence_is_held_back(partial):
    cutter = BlockCutter()
    cutter.feed("text\n" + partial)
    assert cutter.shown_partial == ""
    cutter.feed(" and more")
    if partial in ("`", "``", "~"):
        assert cutter.shown_partial == partial + " and more"


@given(st.text(alphabet="ab 漢\u0301👍\t\n", max_size=80), st.integers(2, 20), st.integers(1, 7))
def test_growing_text_equals_folding_at_once(text, width, step):
    growing = GrowingText(width)
    for at in range(0, len(text), step):
        growing.feed(text[at : at + step])
    assert "".join(growing.rows).replace(" ", "") == "".join(fold_text(text, width)).replace(
        " ", ""
    )


def test_fold_keeps_words_and_splits_long_ones():
    assert fold("one two three", 8) == ["one two ", "three"]
    assert fold("abcdefghij", 4) == ["abcd", "efgh", "ij"]
    assert fold("漢字漢字", 4) == ["漢字", "漢字"]


def test_tail_shows_code_in_its_frame_without_closing_it():
    tail, look = TailPiece(), get_look(DARK)
    tail.has_caret = False
    tail.feed("```py\nx = 1\ny")
    texts = [row.text for row in tail.rows(30, look)]
    assert texts[1].startswith("  ╭─ py ")
    assert texts[2:] == ["  │ x = 1", "  │ y"]
    assert [b.source for b in tail.feed(" = 2\n```\nend")] == ["```py\nx = 1\ny = 2\n```"]
    assert [row.text for row in tail.rows(30, look)][1:] == ["  end"]
