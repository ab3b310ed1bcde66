"""What the screen says is so: its hints, its help and its header."""

import re

from app.slash import SLASH_COMMANDS
from engine.errors import RequestError
from tests.fakes.engine import Script

LONG = "\n\n".join(f"Paragraph number {n} of a long answer." for n in range(60))
SLOW = Script(answer=LONG, round_s=0.2)


async def test_what_help_lists_is_cut_off_nowhere(seat):
    async with seat(size=(120, 160)) as s:
        await s.pilot.press("f1")
        await s.pilot.pause()
        assert "…" not in s.text
        shown = re.sub(r"\s", "", "".join(row[:36] for row in s.text.splitlines()))
        for one in SLASH_COMMANDS:
            assert re.sub(r"\s", "", one.usage) in shown.replace("│", ""), one.usage


async def test_end_follows_again_from_behind_what_is_typed(seat):
    async with seat(SLOW, size=(80, 20)) as s:
        await s.idle()
        await s.send("go")
        await s.until(lambda: s.app.transcript.virtual_size.height > 30)
        await s.type("typed")
        await s.pilot.press("pageup", "home")
        assert "End follows again" in s.state
        await s.pilot.press("end")
        assert not s.app.transcript.is_following  # it went to the end of the line
        assert s.app.composer.cursor_location == (0, 5)
        await s.pilot.press("end")
        assert s.app.transcript.is_following
        await s.pilot.press("escape")


async def test_the_conversation_says_its_keys_while_it_has_the_focus(seat):
    async with seat(Script(answer="well")) as s:
        await s.idle()
        await s.send("go")
        await s.idle()
        assert "Tab writes" not in s.state
        await s.pilot.press("tab")
        s.app.tick()
        assert "j/k move" in s.state
        await s.pilot.press("n")
        assert "Ctrl+F finds" in s.state
        await s.pilot.press("tab")
        s.app.hint("")
        assert "Tab writes" not in s.state


async def test_the_header_names_no_message_that_was_refused(seat):
    async with seat(Script(refuses=RequestError("Too long.")), Script(answer="well")) as s:
        await s.idle()
        await s.send("too long")
        await s.until(lambda: "Too long." in s.text)
        assert s.app._frame.header.shown.startswith(" qwen38  new conversation")
        s.app.composer.clear_all()
        await s.send("/rename About birds")
        assert s.app._frame.header.shown.startswith(" qwen38  About birds")
        await s.send("/rename")
        await s.send("short")
        await s.until(lambda: "well" in s.text)
        assert s.app._frame.header.shown.startswith(" qwen38  short")
