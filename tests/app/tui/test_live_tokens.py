"""F7 while an answer streams: each token marked by how it came, with the words at hand so far."""

import pytest

from app.tui.instruments.tokens_piece import GrowingTokensPiece, TokensPiece
from app.tui.pieces import BlockPiece
from tests.app.tui.hostile import FORBIDDEN, HOSTILE
from tests.app.tui.test_branches import talk
from tests.fakes.engine import Script

WORDS = " ".join(f"word{n}" + "\n" * (n % 7 == 6) for n in range(300))
SLOW = Script(answer=WORDS, round_s=0.02)


def kinds(s, kind):
    return [one for one in s.app.transcript.pieces if isinstance(one, kind)]


async def writing(s):
    await s.idle()
    await s.send("go")
    await s.until(lambda: s.app.chat.phase == "writing")


def styles(s, piece):
    """The style of every character that a piece draws, without its legend."""
    rows = piece.rows(s.app.transcript.text_width, s.app.look)
    return [(sign, one.style) for row in rows[3:] for one in row for sign in one.text]


async def test_tokens_are_marked_as_they_arrive_and_not_when_it_is_off(seat):
    async with seat(SLOW, size=(100, 30)) as s:
        await writing(s)
        await s.pilot.press("f7")
        assert "tokens are marked" in s.state
        await s.until(lambda: len(kinds(s, GrowingTokensPiece)) == 1)
        await s.pilot.pause(0.2)
        assert "drafted and accepted" in s.text
        (live,) = kinds(s, GrowingTokensPiece)
        assert live.source == WORDS[: len(live.source)]
        assert len({style for _, style in styles(s, live)}) > 2
        assert not kinds(s, BlockPiece)
        await s.pilot.press("f7")
        await s.pilot.pause(0.1)
        assert not kinds(s, TokensPiece)
        assert "drafted and accepted" not in s.text
        assert "word3" in s.text
        await s.pilot.press("f7", "escape")
        await s.idle()
        (whole,) = kinds(s, TokensPiece)
        assert not isinstance(whole, GrowingTokensPiece)
        assert whole.source == s.app.chat.session.path_messages()[-1].content


async def test_what_grew_is_what_is_drawn_at_the_end(seat):
    script = Script(answer=WORDS[:600], thinking="let me see", round_s=0.05)
    async with seat(script, size=(100, 30), chat__token_colours=True) as s:
        await writing(s)
        (live,) = kinds(s, GrowingTokensPiece)
        await s.idle()
        (whole,) = kinds(s, TokensPiece)
        shown, done = styles(s, live), styles(s, whole)
        assert len(shown) > 50
        assert [one for one in shown if one[0] != s.app.look.signs.caret] == done[: len(shown) - 1]


async def test_earlier_answers_follow_when_this_one_is_done(seat):
    async with seat(Script(answer="one two three"), SLOW, size=(100, 30)) as s:
        await talk(s, "first")
        await writing(s)
        await s.pilot.press("f7", "escape")
        await s.idle()
        assert len(kinds(s, TokensPiece)) == 2


async def test_hostile_text_is_marked_as_text(seat):
    script = Script(answer="\n".join(HOSTILE[:15]), round_s=0.005)
    async with seat(script, size=(120, 36), chat__token_colours=True) as s:
        await s.idle()
        await s.send("go")
        for _ in range(10):
            await s.pilot.pause(0.05)
            assert not FORBIDDEN & set(s.text)
        await s.idle()
        assert not FORBIDDEN & set(s.text)


@pytest.mark.parametrize("width", [40, 60, 80, 120])
async def test_the_legend_is_never_cut(seat, width):
    async with seat(Script(answer="one two"), size=(width, 20), chat__token_colours=True) as s:
        await talk(s, "go")
        (whole,) = kinds(s, TokensPiece)
        rows = whole.rows(s.app.transcript.text_width, s.app.look)
        legend = next(row.text for row in rows if "accepted" in row.text).strip()
        assert legend.split(" · ")[-1] in ("bonus", "behind a whole draft"), legend
