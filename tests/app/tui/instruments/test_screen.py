"""The instruments on the screen: their forms, their keys, the rounds to step through."""

import re

import pytest

from app.tui.instruments.instruments import form_of
from tests.fakes.engine import Script

ANSWER = " ".join(f"word{n}" for n in range(40))


@pytest.mark.parametrize(
    ("view", "size", "form"),
    [
        ("pane", (120, 36), "pane"), ("pane", (112, 20), "pane"), ("pane", (111, 36), "two"),
        ("pane", (80, 24), "two"), ("pane", (80, 23), "one"), ("pane", (79, 40), "one"),
        ("pane", (60, 16), "one"), ("lines", (160, 50), "two"), ("off", (160, 50), "none"),
    ],
)  # fmt: skip
def test_the_form_follows_the_terminal(view, size, form):
    assert form_of(view, *size) == form


async def answered(s):
    await s.idle()
    await s.send("go")
    await s.until(lambda: s.app.chat.rates is not None and s.app.chat.rates.record is not None)
    await s.idle()


async def test_f2_walks_through_the_views(seat):
    async with seat(Script(answer=ANSWER), size=(120, 36)) as s:
        await answered(s)
        assert "WHERE A ROUND GOES" in s.text
        await s.pilot.press("f2")
        assert s.app.instruments.form == "two"
        assert "WHERE A ROUND GOES" not in s.text
        assert "verify 8.0" in s.text
        await s.pilot.press("f2")
        assert s.app.instruments.form == "none"
        assert "tok/s │" not in s.text
        await s.pilot.press("f2")
        assert "ROUNDS  14 rounds" in s.text
        await s.pilot.press("f2")
        assert s.app.instruments.form == "pane"
        assert len(s.app.screen_stack) == 1


async def test_a_picture_stands_beside_the_figure_that_it_shows(seat):
    async with seat(Script(answer=ANSWER), size=(111, 36)) as s:
        await answered(s)
        lines = s.text
        assert "/3 taken ▅" in lines
        assert "10% ━" in lines
        assert "│ ━" not in lines


@pytest.mark.parametrize("columns", [40, 60, 75, 100])
async def test_of_a_round_no_figure_is_cut(seat, columns):
    async with seat(Script(answer=ANSWER), size=(columns, 24)) as s:
        await answered(s)
        await s.send("/view full")
        legend = next(one for one in s.text.splitlines() if "█ draft" in one)
        assert re.fullmatch(r"(.* )?█ draft 1\.00(  █ [a-z]+ \d\.\d\d)*(  = 10\.00 ms)?", legend)
        moved = next(one for one in s.text.splitlines() if one.strip().startswith("weights"))
        assert re.fullmatch(r" *weights \d+\.\d MB(  [a-z]+ \d+\.\d [KM]B)*", moved)


async def test_the_command_does_what_the_key_does(seat):
    async with seat(Script(answer=ANSWER), size=(120, 36)) as s:
        await answered(s)
        await s.send("/view lines")
        assert s.app.instruments.form == "two"
        await s.send("/view sideways")
        assert "sideways" in s.text
        assert s.app.instruments.form == "two"
        s.app.composer.clear_all()
        await s.send("/view")
        assert "The view is lines, one of pane, lines, off, full, next." in s.text
        assert s.app.instruments.form == "two"
        await s.send("/view next")
        assert s.app.instruments.form == "none"
        await s.send("/view full")
        assert "ROUND 13" in s.text


@pytest.mark.parametrize("size", [(120, 36), (80, 24), (60, 16)])
async def test_rounds_are_stepped_through(seat, size):
    async with seat(Script(answer=ANSWER), size=size) as s:
        await answered(s)
        await s.send("/view full")
        rounds = s.app.chat.rates.rounds
        for keys, index in (
            (["up"], 12), (["k", "k"], 10), (["pageup"], 0), (["down", "j"], 2), (["end"], 13),
            (["home"], 0), (["G"], 13),
        ):  # fmt: skip
            await s.pilot.press(*keys)
            await s.pilot.pause()
            assert f"ROUND {index} " in s.app.screen.shown
        assert f" in {rounds[13].round_ms:.2f} ms = " in s.app.screen.shown
        assert f"{rounds[13].gb_s:.1f} GB/s" in s.app.screen.shown
        await s.pilot.press("escape")
        assert len(s.app.screen_stack) == 1


async def test_earlier_answers_have_their_rounds(seat):
    scripts = (Script(answer="one two three"), Script(answer=ANSWER))
    async with seat(*scripts, size=(120, 36)) as s:
        await answered(s)
        await answered(s)
        await s.send("/view full")
        assert "14 rounds" in s.app.screen.shown
        await s.pilot.press("[")
        assert "1 round, 1 back" in s.app.screen.shown
        await s.pilot.press("]")
        assert "14 rounds" in s.app.screen.shown


async def test_rounds_before_any_answer_say_so(seat):
    async with seat(size=(80, 24)) as s:
        await s.idle()
        await s.send("/view full")
        assert "No answer has rounds yet." in s.text


async def test_f7_marks_the_tokens_of_answers_old_and_new(seat):
    async with seat(Script(answer="**one** two three four"), size=(120, 36)) as s:
        await answered(s)
        assert "**one**" not in s.text
        await s.pilot.press("f7")
        assert "**one** two three four" in s.text
        assert "in place of a wrong draft" in s.text
        await answered(s)
        assert s.text.count("**one** two three four") == 2
        await s.pilot.press("f7")
        assert "**one**" not in s.text


async def test_marks_are_underlined_or_bold_and_survive_a_resume(seat):
    async with seat(Script(answer="one two three four five"), size=(100, 30)) as s:
        await answered(s)
        saved = s.app.chat.session.id
    async with seat(resume=saved, size=(100, 30), chat__token_colours=True) as s:
        await s.idle()
        marks = {
            segment.text.strip(): (bool(segment.style.bold), bool(segment.style.underline))
            for strip in s.app.screen._compositor.render_strips()
            for segment in strip
            if segment.style is not None
        }
        assert marks["one two"] == (False, False)  # accepted
        assert marks["three"] == (False, True)  # corrected: the third draft was wrong


async def test_the_screens_own_cost_is_measured(seat):
    async with seat(Script(answer=ANSWER, round_s=0.02), size=(120, 36)) as s:
        await answered(s)
        gauges = s.app.instruments.gauges
        await s.until(lambda: gauges.load is not None and gauges.lag_p95_ms is not None)
        assert 0 <= gauges.lag_p95_ms < 10_000
        assert gauges.load.process_bytes > 0
        await s.until(lambda: gauges.share is not None)
        assert 0 < gauges.share < 2
