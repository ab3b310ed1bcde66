"""The picker of conversations: searching all their text, renaming, deleting; hostile ones too."""

from app.tui.screens.resume import ResumeScreen
from tests.app.tui.hostile import FORBIDDEN, HOSTILE
from tests.fakes.engine import Script


def saved(s, *texts, model="m"):
    """Keep a conversation with these messages, the person's first."""
    session = s.store.create(model, "demo", "")
    for at, text in enumerate(texts):
        session.add_message("assistant" if at % 2 else "user", text)
    session.close()
    return session


async def open_picker(s):
    await s.idle()
    await s.pilot.press("ctrl+r")
    await s.until(lambda: isinstance(s.app.screen, ResumeScreen) and bool(s.app.screen._found))
    await s.pilot.pause()


async def test_search_finds_words_inside_the_texts_and_shows_where(seat):
    async with seat() as s:
        saved(s, "about rocks", 'Granite is an intrusive rock; obsidian is "glass".')
        saved(s, "about birds", "A wren is small.")
        await open_picker(s)
        await s.pilot.press(*"OBSIDIAN")
        await s.until(lambda: "obsidian is" in s.text)
        assert "about rocks" in s.text
        assert "about birds" not in s.text
        await s.pilot.press(*[" ", "g", "r", "a", "n"])
        await s.until(lambda: "Granite is an" in s.text or "obsidian is" in s.text)
        await s.pilot.press("enter")
        await s.until(lambda: s.app.chat.session.title == "about rocks")


async def test_a_search_that_fits_nothing_says_so(seat):
    async with seat() as s:
        saved(s, "about rocks", "Granite.")
        await open_picker(s)
        await s.pilot.press(*"zebra")
        await s.until(lambda: "no conversation fits" in s.text)


async def test_f2_renames_and_escape_leaves_the_title(seat):
    async with seat() as s:
        other = saved(s, "about rocks")
        await open_picker(s)
        await s.pilot.press("f2")
        assert "Enter keeps this title" in s.text
        await s.pilot.press("ctrl+u", *"Stones", "escape")
        assert s.store.open(other.id, write=False).title == "about rocks"
        assert isinstance(s.app.screen, ResumeScreen)
        await s.pilot.press("f2", "ctrl+u", *"Stones", "enter")
        await s.until(lambda: "Stones" in s.text and "renamed" in s.text)
        assert s.store.open(other.id, write=False).title == "Stones"


async def test_the_rename_command_and_the_open_conversation(seat):
    async with seat() as s:
        await s.idle()
        await s.send("first words")
        await s.idle()
        await s.send("/rename A better name")
        await s.pilot.pause()
        s.app.tick()
        await s.pilot.pause()
        assert "A better name" in s.text
        assert s.store.open(s.app.chat.session.id, write=False).title == "A better name"
        await open_picker(s)
        await s.pilot.press("f2", "ctrl+u", *"Best", "enter")
        await s.until(lambda: s.app.chat.session.title == "Best")


async def test_a_conversation_open_elsewhere_is_neither_renamed_nor_deleted(seat):
    async with seat() as s:
        other = saved(s, "held elsewhere")
        held = type(s.store)(s.store.folder).open(other.id)
        await open_picker(s)
        await s.pilot.press("f2", "ctrl+u", *"Mine", "enter")
        await s.until(lambda: "open in another window" in s.text)
        await s.pilot.press("delete", "delete")
        await s.until(lambda: "open in another window" in s.text)
        held.close()
        assert s.store.open(other.id, write=False).title == "held elsewhere"


async def test_delete_of_this_conversation_asks_twice(seat):
    async with seat() as s:
        await s.idle()
        await s.send("to be gone")
        await s.idle()
        gone = s.app.chat.session.id
        await s.send("/delete")
        assert "/delete again" in s.state
        assert [one.id for one in s.store.list()] == [gone]
        await s.send("/delete")
        assert s.store.list() == []
        assert "to be gone" not in s.text


async def test_hostile_sessions_draw_as_text_in_picker_header_and_transcript(seat, tmp_path):
    async with seat(Script(answer="ok"), size=(120, 36)) as s:
        sessions = [saved(s, f"findme {text}", text, model=text) for text in HOSTILE]
        for session in sessions:
            session.rename(session.messages[next(iter(session.messages))].content)
            session.close()
        await open_picker(s)
        assert not FORBIDDEN & set(s.text)
        await s.pilot.press(*"findme")
        await s.until(lambda: bool(s.app.screen._excerpts))
        await s.pilot.pause()
        assert not FORBIDDEN & set(s.text)
        await s.pilot.press("escape")
        for session in sessions:
            s.app.chat.resume(session.id)
            s.app.tick()
            await s.pilot.pause()
            assert not FORBIDDEN & set(s.text)
            s.app.action_run(f"/export {tmp_path / 'out.md'}")
            s.app.action_run("/session")
            s.app.action_run("/tree")
            await s.pilot.pause()
            assert not FORBIDDEN & set(s.text)
            await s.pilot.press("escape")
        assert not s.app._exit
