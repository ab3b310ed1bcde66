"""What the find bar and the sheets of branches and prompts look like; time stands still."""

import pytest

from tests.app.tui.screens import assert_same
from tests.app.tui.test_snapshots import LOOKS, StillGauges, settle, still_clock
from tests.fakes.engine import Script, real_checkpoint_engine

SIZES = [(120, 36), (80, 24), (60, 16)]
SCRIPTS = [
    Script(answer="A volcano is a mountain that can erupt.\n\n```py\nlava = 1200  # degrees\n```"),
    Script(answer="A volcano is an opening in the crust.", thinking="They want it short."),
]


@pytest.fixture
def still(seat, monkeypatch):
    def open_still(size, **options):
        for module in ("resume.local_day", "branches.local_minute"):
            monkeypatch.setattr(f"app.tui.screens.{module}", lambda iso: "09:41")
        engine = real_checkpoint_engine(SCRIPTS)
        return seat(size=size, engine=engine, clock=still_clock(), gauges=StillGauges(), **options)

    return open_still


async def two_branches(s):
    s.app.composer.cursor_blink = False
    await s.idle()
    await s.send("what is a volcano?")
    await s.idle()
    await s.pilot.press("f5")
    await s.until(lambda: len(s.engine.requests) == 2 and not s.app.chat.is_busy)
    await s.idle()
    s.app.chat.answering.rates = None  # the rates of this machine are no part of the picture
    for piece in [one for one in s.app.transcript.pieces if type(one).__name__ == "FootPiece"]:
        s.app.transcript.take_away(piece)
    s.app.transcript.settle()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("look", LOOKS)
async def test_find(still, size, look):
    async with still(size, **LOOKS[look]) as s:
        await two_branches(s)
        await s.pilot.press("ctrl+f", *"short")
        s.app._finding.bar._input.cursor_blink = False
        await settle(s)
        assert_same(s.app, f"find-{look}-{size[0]}x{size[1]}")


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("key", ["f6", "alt+r"])
async def test_lists(still, size, key):
    async with still(size) as s:
        await two_branches(s)
        s.app.history.add("a prompt that is too long for one row " * 4)
        await s.pilot.press(key)
        await s.pilot.pause()
        for box in s.app.screen.query("Input"):
            box.cursor_blink = False
        await settle(s)
        assert_same(s.app, f"sheet-{key.replace('+', '-')}-{size[0]}x{size[1]}")


@pytest.mark.parametrize("size", SIZES)
async def test_written_anew(still, size):
    async with still(size) as s:
        await two_branches(s)
        await s.pilot.press("tab", "k", "k", "e")
        await settle(s)
        assert_same(s.app, f"anew-{size[0]}x{size[1]}")
