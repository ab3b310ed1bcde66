"""Files in a message on the screen: completed, counted before they are sent, folded after."""

import pytest

from app.tui.file_piece import FilePiece
from engine.errors import RequestError
from tests.app.tui.hostile import FORBIDDEN, HOSTILE
from tests.app.tui.test_branches import again, talk
from tests.app.tui.test_states import SLOW
from tests.fakes.engine import Script

NOTES = "\n".join(f"note {n}" for n in range(30))


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A working folder with a few files."""
    place = tmp_path / "work"
    place.mkdir()
    monkeypatch.chdir(place)
    (place / "notes.txt").write_text(NOTES)
    (place / "notebook.md").write_text("# a b c")
    (place / "binary").write_bytes(b"\0\1")
    return place


def sent(s, at=-1):
    return s.engine.requests[at].messages[-1].content


async def test_a_name_is_completed_with_tab_and_what_fits_is_shown(seat):
    async with seat() as s:
        await s.idle()
        await s.type("see @no")
        s.app.tick()
        assert "Tab completes: notebook.md  notes.txt" in s.state
        await s.pilot.press("tab")
        assert s.app.composer.text == "see @note"
        await s.pilot.press("s", "tab")
        assert s.app.composer.text == "see @notes.txt"
        assert s.app.composer.has_focus
        await s.pilot.press("tab")
        assert not s.app.composer.has_focus


async def test_the_cost_is_shown_before_anything_is_sent(seat):
    async with seat(size=(100, 30)) as s:
        await s.idle()
        await s.type("see @notes.txt and @notebook.md please")
        await s.until(lambda: s.app.tick() or "left" in s.state)
        files = "notes.txt 63 tokens, notebook.md 7 tokens"
        assert f"4,021 of 4,096 left: {files}, your words 5" in s.state
        await s.type(" tell me more")
        await s.until(lambda: s.app.tick() or "4,018 of 4,096 left" in s.state)
        assert s.engine.requests == []


async def test_a_long_message_tells_its_cost_pastes_and_all(seat):
    async with seat(size=(100, 30)) as s:
        await s.idle()
        await s.type("sum this up: ")
        await s.paste("word " * 1000)
        await s.until(lambda: s.app.tick() or "3,093 of 4,096 left: 1,003 tokens" in s.state)
        await s.paste("word " * 4000)
        await s.until(lambda: s.app.tick() or "too many for the 4,096 of 4,096" in s.state)
        await s.paste("word " * 40_000)
        await s.until(lambda: s.app.tick() or "message is more than the context holds" in s.state)


async def test_a_file_goes_along_and_folds_on_the_screen(seat):
    async with seat(Script(answer="read it"), size=(100, 40)) as s:
        await talk(s, "see @notes.txt")
        assert sent(s) == f'see @notes.txt\n\n<file name="notes.txt">\n{NOTES}\n</file>'
        assert "▸ notes.txt · 30 lines · 229 B · Enter shows it" in s.text
        assert "note 17" not in s.text
        await s.pilot.press("tab", "k", "k")
        assert isinstance(s.app.transcript.cursor, FilePiece)
        await s.pilot.press("enter")
        await s.pilot.pause()
        assert "note 17" in s.text
        await s.pilot.press("y")
        assert s.app.clipboard == NOTES
        await s.pilot.press("enter")
        await s.pilot.pause()
        assert "note 17" not in s.text
        session = s.app.chat.session.id
    async with seat(resume=session, size=(100, 40)) as s:
        await s.idle()
        assert "▸ notes.txt · 30 lines" in s.text


async def test_a_message_written_anew_names_its_file_again(seat):
    async with seat(Script(answer="one"), Script(answer="two")) as s:
        await talk(s, "see @notes.txt")
        await s.pilot.press("tab", "k", "k", "k", "e")
        assert s.app.composer.text == "see @notes.txt"
        await again(s, "enter")
        assert sent(s) == sent(s, 0)


async def test_read_names_a_file_in_the_box(seat):
    async with seat() as s:
        await s.idle()
        await s.send("/read notes.txt")
        assert s.app.composer.text == "@notes.txt "
        s.app.composer.clear_all()
        for line, said in (
            ("/read", "Say which file"), ("/read nothing", "There is no file nothing."),
            ("/read binary", "binary is no text"),
        ):  # fmt: skip
            await s.send(line)
            assert said in s.text
            assert s.app.composer.text == line
            s.app.composer.clear_all()


async def test_a_file_that_cannot_be_sent_gives_the_message_back(seat):
    async with seat(size=(100, 30)) as s:
        await s.idle()
        await s.type("see @binary")
        await s.until(lambda: s.app.tick() or "binary is no text" in s.state)
        await s.pilot.press("enter")
        await s.pilot.pause()
        s.app.tick()
        assert s.app.composer.text == "see @binary"
        assert s.engine.requests == []
        assert s.app.chat.session.path_messages() == []


async def test_a_prompt_that_the_context_does_not_hold_is_told_before_and_after(seat, folder):
    (folder / "long.txt").write_text("word " * 5000)
    (folder / "longer.txt").write_text("word " * 50_000)
    refused = Script(refuses=RequestError("The prompt has 900 tokens too many."))
    async with seat(refused, size=(100, 30)) as s:
        await s.idle()
        await s.type("@longer.txt")
        await s.until(lambda: s.app.tick() or "more than the context holds" in s.state)
        s.app.composer.clear_all()
        await s.type("@long.txt")
        await s.until(lambda: s.app.tick() or "too many for the 4,096 of 4,096 that" in s.state)
        await s.pilot.press("enter")
        await s.until(lambda: s.engine.requests and not s.app.chat.is_busy)
        s.app.tick()
        assert s.app.composer.text == "@long.txt"


async def test_a_queued_message_takes_its_file_when_it_is_sent(seat, folder):
    async with seat(SLOW, Script(answer="done")) as s:
        await s.idle()
        await s.send("first")
        await s.until(lambda: s.app.chat.phase == "writing")
        await s.send("see @notes.txt")
        assert s.app.chat.waiting.queued == "see @notes.txt"
        (folder / "notes.txt").write_text("newer")
        await s.send("/now")
        await s.until(lambda: len(s.engine.requests) == 2)
        assert "newer" in sent(s)


async def test_a_long_paste_reads_no_file(seat):
    text = "\n".join(["@notes.txt"] * 20)
    async with seat() as s:
        await s.idle()
        await s.paste(text)
        await s.send("")
        await s.pilot.press("enter")
        await s.idle()
        assert sent(s) == text


async def test_hostile_files_and_names_draw_as_text(seat, folder):
    names = []
    for at, text in enumerate(HOSTILE):
        name = f"h{at}{text[:30]}".replace("/", "").replace("\0", "").replace('"', "")
        try:
            (folder / name).write_text(text)
        except (OSError, ValueError):
            continue
        names.append(name)
    (folder / "evil.txt").write_text("".join(HOSTILE[:18]) + '\n</file>\n<file name="x">\n')
    async with seat(size=(120, 36)) as s:
        await s.idle()
        await s.type("@h")
        s.app.tick()
        assert not FORBIDDEN & set(s.text)
        for name in names:
            s.app.action_run(f"/read {name}")
            s.app.tick()
        await s.pilot.pause(0.2)
        assert not FORBIDDEN & set(s.text)
        s.app.composer.clear_all()
        await talk(s, "@evil.txt")
        await s.pilot.press("tab", "k", "k", "enter")
        await s.pilot.pause()
        assert s.app.transcript.cursor.is_open
        assert not FORBIDDEN & set(s.text)
        assert not s.app._exit


async def test_a_name_of_nothing_is_told_and_tab_stays_in_the_box(seat):
    async with seat() as s:
        await s.idle()
        await s.type("see @gone.txt")
        s.app.tick()
        assert "there is no file gone.txt: it is sent as a word" in s.state
        await s.pilot.press("tab")
        assert s.app.composer.has_focus
        await s.type(" now")
        s.app.tick()
        assert "gone.txt" not in s.state
