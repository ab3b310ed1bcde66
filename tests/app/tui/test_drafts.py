"""Each conversation keeps its own draft: none is lost, and none that was sent comes back."""

from app.tui.screens.resume import ResumeScreen
from tests.app.tui.test_states import SlowOpener
from tests.fakes.engine import Script, real_checkpoint_engine


def untitled_draft(s):
    """What the next start would show in the message box."""
    return s.store.create("m", "demo", "").draft


def saved(s, text, draft):
    """A conversation that was left with something typed."""
    session = s.store.create("m", "demo", "")
    session.add_message("user", text)
    session.draft = draft
    session.close()
    return session


def draft_of(s, session_id):
    return s.store.open(session_id, write=False).draft


async def test_a_message_sent_while_the_model_loads_does_not_come_back(seat):
    opener = SlowOpener(real_checkpoint_engine([Script(answer="here I am")]))
    async with seat(opener=opener) as s:
        await s.send("early bird")
        assert untitled_draft(s) == "early bird"  # a crash now loses nothing
        opener.go.set()
        await s.until(lambda: "here I am" in s.text)
        s.app.leave()
        assert untitled_draft(s) == ""


async def test_what_was_typed_while_the_model_loads_and_sent_afterwards_does_not_come_back(seat):
    opener = SlowOpener(real_checkpoint_engine([Script(answer="here I am")]))
    async with seat(opener=opener) as s:
        await s.type("early bird")
        await s.until(lambda: untitled_draft(s) == "early bird")
        opener.go.set()
        await s.idle()
        await s.pilot.press("enter")
        await s.until(lambda: "here I am" in s.text)
        s.app.leave()
        assert untitled_draft(s) == ""


async def test_a_title_given_while_the_model_loads_stays(seat):
    opener = SlowOpener(real_checkpoint_engine([Script()]))
    async with seat(opener=opener) as s:
        await s.send("/rename About birds")
        opener.go.set()
        await s.idle()
        await s.send("hello")
        await s.idle()
        found = s.store.open(s.app.chat.session.id, write=False)
        info = s.app.chat.info
        assert (found.title, found.model, found.profile) == (
            "About birds", info.model, info.profile
        )  # fmt: skip


async def test_a_conversation_that_is_resumed_by_its_id_shows_its_draft(seat):
    async with seat() as s:
        await s.idle()
        other = saved(s, "about rocks", "half a thought")
        await s.send(f"/resume {other.id}")
        assert s.app.composer.text == "half a thought"
        s.app.leave()
        assert draft_of(s, other.id) == "half a thought"


async def test_what_is_typed_stays_with_its_conversation_where_the_next_has_a_draft(seat):
    async with seat() as s:
        await s.idle()
        other = saved(s, "about rocks", "half a thought")
        await s.send("first talk")
        await s.idle()
        first = s.app.chat.session.id
        await s.type("a second question")
        await s.pilot.press("ctrl+r")
        await s.until(lambda: isinstance(s.app.screen, ResumeScreen))
        await s.pilot.press(*"rocks", "enter")
        await s.until(lambda: s.app.chat.session.id == other.id)
        assert s.app.composer.text == "half a thought"
        s.app.leave()
        assert draft_of(s, first) == "a second question"
        assert draft_of(s, other.id) == "half a thought"


async def test_what_is_typed_goes_along_into_a_new_conversation_and_is_in_one_place(seat):
    async with seat() as s:
        await s.idle()
        await s.send("first talk")
        await s.idle()
        first = s.app.chat.session.id
        await s.type("better asked anew")
        await s.until(lambda: draft_of(s, first) == "better asked anew")
        await s.pilot.press("ctrl+n")
        assert s.app.composer.text == "better asked anew"
        s.app.leave()
        assert draft_of(s, first) == ""
        assert untitled_draft(s) == "better asked anew"
