"""Another model reads the conversation before the next message, which goes on behind it."""

import pytest

from app.sessions.store import SessionStore
from engine.errors import RequestError
from tests.app.tui.test_profiles import profile_of
from tests.fakes.engine import Script, real_checkpoint_engine
from tests.fakes.profiles import Load


def ahead_of(load):
    return [[one.content for one in each.messages] for each in load.engines[-1].ahead]


@pytest.mark.parametrize("beside", [True, False])
async def test_the_new_model_reads_the_conversation_at_once_and_shows_how_far_it_is(chat, beside):
    fp8 = Load(ahead={"ahead_steps": 4, "ahead_step_s": 0.25})
    opening, _ = chat(beside=beside, fp8=fp8, size=(110, 24))
    async with opening as s:
        await s.idle()
        await s.send("hello there")
        await s.idle()
        await s.send("/profile fp8")
        await s.until(lambda: "reading the conversation again" in s.state)
        assert "profile fp8, is loaded." in " ".join(s.text.split())
        await s.until(lambda: "· 0 of 12 tokens" in s.state)
        assert "Esc leaves it for your message" in s.state
        assert s.app.chat.phase == "idle"
        await s.until(lambda: s.state.strip().startswith("○ ready"))
        assert ahead_of(fp8) == [["hello there", "four bits"]]


async def test_a_conversation_that_is_resumed_is_read_while_the_person_types(seat, tmp_path):
    store = SessionStore(tmp_path / "data", tmp_path / "drafts")
    session = store.create("m", "demo", "")
    session.add_message("user", "hello there")
    session.add_message("assistant", "good day")
    session.close()
    engine = real_checkpoint_engine([Script(answer="and so it goes on")])
    engine.ahead_steps, engine.ahead_step_s = 400, 0.02
    async with seat(engine=engine, resume=session.id) as s:
        await s.until(lambda: "reading the conversation again" in s.state)
        (request,) = engine.ahead
        assert [one.content for one in request.messages] == ["hello there", "good day"]
        await s.send("go on")
        await s.until(lambda: "and so it goes on" in s.text)


async def test_a_new_conversation_has_nothing_to_be_read(seat):
    async with seat() as s:
        await s.idle()
        assert s.engine.ahead == []


async def until_it_reads_ahead(s):
    """A message was answered, and the conversation is being read by another profile."""
    await s.idle()
    await s.send("hello")
    await s.idle()
    await s.send("/profile fp8")
    await s.until(lambda: s.app.chat.ahead.progress is not None)


async def test_a_message_that_is_typed_meanwhile_is_answered_behind_what_is_read(chat):
    fp8 = Load(script=Script(answer="eight bits"), ahead={"ahead_steps": 400, "ahead_step_s": 0.02})
    opening, _ = chat(fp8=fp8)
    async with opening as s:
        await until_it_reads_ahead(s)
        await s.send("and now?")
        await s.until(lambda: "eight bits" in s.text)
        await s.idle()
        (request,) = fp8.engines[0].requests
        assert [one.content for one in request.messages] == ["hello", "four bits", "and now?"]
        kept = s.store.open(s.app.chat.session.id, write=False)
        assert [one.content for one in kept.path_messages()][-2:] == ["and now?", "eight bits"]
        assert not s.app.chat.ahead.goes_on


async def test_escape_leaves_the_rest_of_it_for_the_message(chat):
    fp8 = Load(ahead={"ahead_steps": 400, "ahead_step_s": 0.02})
    opening, _ = chat(fp8=fp8)
    async with opening as s:
        await until_it_reads_ahead(s)
        await s.type("half a thought")
        await s.pilot.press("escape")
        assert not s.app.chat.ahead.goes_on
        assert s.app.composer.text == "half a thought"
        assert profile_of(s) == "fp8"
        await s.pilot.press("enter")
        await s.idle()
        assert len(fp8.engines[0].requests) == 1


async def test_a_model_that_came_back_reads_it_again_too(chat):
    opening, loads = chat(beside=False, fp8=Load(fails="Shard 3 of 11 ends early."))
    async with opening as s:
        await s.idle()
        await s.send("hello")
        await s.idle()
        await s.send("/profile fp8")
        await s.until(lambda: len(loads["nvfp4"].engines) == 2 and loads["nvfp4"].engines[-1].ahead)
        assert ahead_of(loads["nvfp4"]) == [["hello", "four bits"]]


@pytest.mark.parametrize("failure", [RequestError("It has 9 tokens.", "Begin anew."), ValueError()])
async def test_what_fails_meanwhile_is_said_and_the_message_is_given_back_when_refused(
    chat, failure
):
    refused = Script(refuses=RequestError("It has 9 tokens.", "Begin anew."))
    opening, _ = chat(fp8=Load(script=refused, ahead={"ahead_fails": failure}))
    async with opening as s:
        await s.idle()
        await s.send("hello")
        await s.idle()
        await s.send("/profile fp8")
        said = "It has 9 tokens." if isinstance(failure, RequestError) else "ValueError"
        await s.until(lambda: said in s.text)
        assert s.app.chat.phase == "idle"
        await s.send("one more")
        await s.until(lambda: s.app.composer.text == "one more")  # nothing is lost
        assert len(s.app.chat.session.path_messages()) == 2


async def test_a_new_conversation_is_not_read_ahead(chat):
    fp8 = Load(ahead={"ahead_steps": 400, "ahead_step_s": 0.02})
    opening, _ = chat(fp8=fp8)
    async with opening as s:
        await s.idle()
        await s.send("/profile fp8")
        await s.until(lambda: profile_of(s) == "fp8")
        assert fp8.engines[0].ahead == []
        await s.send("hello")
        await s.idle()
        await s.send("/profile nvfp4")
        await s.until(lambda: profile_of(s) == "nvfp4")
        await s.send("/new")
        await s.idle()
        assert not s.app.chat.ahead.goes_on


async def test_going_on_to_a_third_profile_leaves_the_reading(chat):
    fp8 = Load(ahead={"ahead_steps": 400, "ahead_step_s": 0.02})
    opening, loads = chat(fp8=fp8, balanced=Load())
    async with opening as s:
        await until_it_reads_ahead(s)
        await s.send("/profile balanced")
        await s.until(lambda: profile_of(s) == "balanced")
        await s.until(lambda: not s.app.chat.ahead.goes_on)
        assert ahead_of(loads["balanced"]) == [["hello", "four bits"]]
