"""An answer that stopped goes on behind what it says, on the screen and on the disk."""

import re

import pytest

from app.tui.pieces import FootPiece
from engine.errors import RequestError
from tests.app.tui.test_branches import again, contents, talk
from tests.app.tui.test_states import SLOW
from tests.fakes.engine import Script

REST = Script(answer=" and the rest.", thinking="")


async def stopped(s):
    await s.idle()
    await s.send("go")
    await s.until(lambda: "Paragraph number 1 " in s.text)
    await s.pilot.press("escape")
    await s.idle()
    return s.app.chat.session.path_messages()[-1]


async def test_c_goes_on_with_a_stopped_answer(seat):
    async with seat(SLOW, REST) as s:
        first = await stopped(s)
        assert "/continue goes on" in s.text
        await again(s, "tab", "c")
        last = s.app.chat.session.path_messages()[-1]
        assert (last.id, last.state) == (first.id, "complete")
        assert last.content == first.content + " and the rest."
        assert s.engine.requests[-1].messages[-1].content == first.content
        assert "and the rest." in s.text
        assert "/continue goes on" not in s.text
        assert s.text.count("Paragraph number 1 ") <= 1
        session = s.app.chat.session.id
        kept = s.store.open(session, write=False).path_messages()[-1]
        assert kept.content == last.content
        assert kept.record.text == last.content
    async with seat(resume=session) as s:
        await s.idle()
        assert contents(s)[-1] == last.content


async def test_an_edited_answer_goes_on_as_edited(seat):
    async with seat(Script(answer="one"), REST) as s:
        await talk(s, "question")
        await s.pilot.press("tab", "k", "e")
        await s.type(" thing")
        await s.pilot.press("enter")
        await s.idle()
        await s.type("/continue")
        await again(s, "enter")
        assert contents(s) == ["question", "one thing and the rest."]
        assert s.engine.requests[-1].messages[-1].content == "one thing"


async def test_a_refusal_leaves_the_answer_as_it_was(seat):
    async with seat(SLOW, Script(refuses=RequestError("No."))) as s:
        first = await stopped(s)
        await s.type("/continue")
        await again(s, "enter")
        last = s.app.chat.session.path_messages()[-1]
        assert (last.content, last.reason, last.record) == (
            first.content, first.reason, first.record,
        )  # fmt: skip
        assert "No." in s.text


async def test_an_engine_that_fails_keeps_both_parts(seat):
    broken = Script(answer=" more of it", tokens_per_round=1, crashes_after=2)
    async with seat(SLOW, broken) as s:
        first = await stopped(s)
        await s.type("/continue")
        await again(s, "enter")
        last = s.store.open(s.app.chat.session.id, write=False).path_messages()[-1]
        assert last.content == first.content + " more"
        assert last.record is None


async def test_without_an_answer_it_is_said(seat):
    async with seat() as s:
        await s.idle()
        await s.send("/continue")
        assert "no answer here" in s.state


async def test_an_answer_that_the_model_ended_keeps_its_record(seat):
    async with seat(Script(answer="all of it"), REST) as s:
        await talk(s, "question")
        before = s.app.chat.session.path_messages()[-1]
        await s.send("/continue")
        await s.idle()
        assert s.app.chat.session.path_messages()[-1] == before
        assert "nothing to go on with" in s.state


@pytest.mark.parametrize("columns", [40, 60, 120])
async def test_how_an_answer_ended_is_not_cut(seat, columns):
    async with seat(Script(answer="word " * 400, round_s=0.02), size=(columns, 24)) as s:
        await s.idle()
        await s.send("go")
        await s.until(lambda: s.app.chat.phase == "writing")
        await s.pilot.pause(0.3)
        await s.pilot.press("escape")
        await s.idle()
        await s.pilot.pause()
        (foot,) = [one for one in s.app.transcript.pieces if isinstance(one, FootPiece)]
        rows = [row.text.strip() for row in foot.rows(s.app.transcript.text_width, s.app.look)]
        told = " ".join(row for row in rows if row)
        assert "stopped, the text is kept: /continue goes on" in told
        assert " tokens" in told
        assert re.search(r"first after \d+\.\d\d s$", told)
