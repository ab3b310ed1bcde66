"""Finding: what matches in folded rows, and the bar through the real app."""

import time

import pytest

from app.blocks import Block
from app.tui.answer import ThinkingPiece
from app.tui.find import Finder
from app.tui.pieces import BlockPiece, PromptPiece
from app.tui.theme import get_look
from tests.app.tui.hostile import FORBIDDEN, HOSTILE
from tests.app.tui.test_branches import talk
from tests.fakes.engine import Script
from tests.tries import tries

LOOK = get_look("qwen38-dark")
ANSWER = "\n\n".join(
    f"Paragraph {n} speaks of lava{' and basalt' * (n % 3 == 0)}." for n in range(40)
)


def matched(piece, text, width):
    """The marked texts of a piece, by match."""
    piece.rows(width, LOOK)
    finder = Finder()
    finder.look_for(text)
    found = {}
    for row, spans in finder.spans(piece).items():
        for begin, end, nth in spans:
            found.setdefault(nth, []).append(piece.drawing.rows[row].text[begin:end])
    return [*found.values()]


@pytest.mark.parametrize(
    ("source", "text", "width", "expected"),
    [
        ("The Volcano and the volcano", "volcano", 60, [["Volcano"], ["volcano"]]),
        ("one two three four", "two three", 12, [["two", "three"]]),
        ("x" * 30, "x" * 25, 22, [["x" * 20, "x" * 5]]),
        ("a **bold** word", "bold word", 60, [["bold word"]]),
        ("漢字とカナ", "とカ", 60, [["とカ"]]),
        ("a.c abc", "a.c", 60, [["a.c"]]),
        ("nothing", "volcano", 60, []),
        ("spaces", "   ", 60, []),
        ("ab", "a b", 60, []),
    ],
)
def test_matches_in_folded_rows(source, text, width, expected):
    assert matched(BlockPiece(Block("markdown", source)), text, width) == expected


def test_code_matches_over_a_folded_row_without_its_frame():
    piece = BlockPiece(Block("code", "```py\nvalue = something_quite_long\n```"))
    assert matched(piece, "something_quite_long", 22) == [["something_quite_lo", "ng"]]
    assert matched(piece, "py", 40) == []


def test_names_and_times_above_a_message_are_no_matches():
    assert matched(PromptPiece("you said 09:41", "09:41"), "09:41", 60) == [["09:41"]]
    assert matched(PromptPiece("hello", "09:41"), "you", 60) == []


async def test_control_f_finds_while_typing_counts_and_wraps(seat):
    async with seat(Script(answer=ANSWER)) as s:
        await talk(s, "tell me")
        await s.pilot.press("ctrl+f")
        await s.pilot.press(*"basalt")
        await s.pilot.pause()
        assert " of 14" in s.text
        await s.pilot.press("enter", "enter", "enter")
        await s.pilot.pause()
        seen = s.app._finding.bar._count.shown
        assert " of 14" in seen
        current = s.app.transcript.finder.current
        assert current in s.app._finding._hits()
        await s.pilot.press("up")
        assert s.app.transcript.finder.current != current
        await s.pilot.press("down")
        assert s.app.transcript.finder.current == current
        assert "basalt" in s.text
        await s.pilot.press("escape")
        assert not s.app._finding.bar.display
        assert s.app.focused is s.app.composer
        assert s.app.transcript.finder.text == ""


async def test_n_walks_on_from_the_find_command(seat):
    async with seat(Script(answer=ANSWER)) as s:
        await talk(s, "tell me")
        await s.send("/find Paragraph 12")
        await s.pilot.pause()
        assert "1 of 1" in s.text
        assert "Paragraph 12 speaks" in s.text
        s.app.action_run("/find basalt")
        await s.pilot.pause()
        first = s.app._finding.bar._count.shown
        await s.pilot.press("n")
        second = s.app._finding.bar._count.shown
        assert first != second
        await s.pilot.press("N")
        assert s.app._finding.bar._count.shown == first


async def test_what_is_found_in_folded_thinking_is_unfolded_and_said(seat):
    async with seat(Script(thinking="a deep secret thought", answer="done")) as s:
        await talk(s, "go")
        assert "deep secret" not in s.text
        await s.pilot.press("ctrl+f")
        await s.pilot.press(*"secret")
        await s.pilot.pause()
        assert "1 of 1, in thinking that was folded" in s.text
        assert "deep secret" in s.text


async def test_nothing_found_is_said(seat):
    async with seat() as s:
        await talk(s, "go")
        await s.pilot.press("ctrl+f")
        await s.pilot.press(*"zebra")
        await s.pilot.pause()
        assert "nothing found" in s.text


async def test_matches_stay_right_when_the_terminal_changes(seat):
    async with seat(Script(answer=ANSWER), size=(100, 30)) as s:
        await talk(s, "tell me")
        s.app.action_run("/find of lava and basalt")
        await s.pilot.resize_terminal(30, 20)
        await s.pilot.press("n")
        await s.pilot.pause()
        transcript = s.app.transcript
        hit = transcript.finder.current
        spans = transcript.finder.spans(hit.piece)
        texts = [
            hit.piece.drawing.rows[row].text[a:b] for row, all_ in spans.items() for a, b, _ in all_
        ]
        assert " ".join(texts).split() == ["of", "lava", "and", "basalt"]


@pytest.mark.parametrize("text", HOSTILE)
async def test_hostile_texts_in_the_find_bar_draw_as_text(seat, text):
    async with seat(Script(answer=text)) as s:
        await talk(s, "go")
        await s.pilot.press("ctrl+f")
        bar = s.app._finding.bar._input
        from textual.events import Paste

        bar.post_message(Paste(text))
        await s.pilot.pause()
        assert not FORBIDDEN & set(s.text)
        assert s.app._finding.bar.display


@pytest.mark.timing
def test_searching_a_megabyte_line_is_quick():
    piece = ThinkingPiece("folded", "ab " * 350_000 + "needle")
    for _ in tries():
        finder = Finder()
        finder.look_for("needle")
        began = time.perf_counter()
        assert len(finder.hits([piece])) == 1
        if (took_s := time.perf_counter() - began) < 1.0:
            return
    pytest.fail(f"it took {took_s:.2f} s")


async def test_what_was_typed_over_already_is_not_looked_for(seat, monkeypatch):
    async with seat(Script(answer=ANSWER)) as s:
        await talk(s, "q")
        await s.pilot.press("ctrl+f")
        searched = []
        look_for = Finder.look_for
        monkeypatch.setattr(
            Finder, "look_for", lambda finder, text: (searched.append(text), look_for(finder, text))
        )
        box = s.app._finding.bar._input
        for end in range(1, 7):
            box.value = "basalt"[:end]
        await s.pilot.pause()
        assert searched == ["basalt"]
        assert "of 14" in s.text
