"""The menus at every size and in every look; time, machine and engine stand still."""

import pytest

from tests.app.tui.screens import assert_same
from tests.app.tui.test_snapshots import still_clock
from tests.fakes.engine import Script
from tests.fakes.profiles import FakeMenu, Load

SIZES = [(120, 36), (80, 24), (60, 16)]
LOOKS = {
    "dark": {},
    "light": {"chat__theme": "light"},
    "ascii": {"chat__ascii": True},
}
FOUR = "A volcano is a mountain that can erupt: lava, ash and gas come out of it."
EIGHT = "A volcano is a hill that can erupt: lava, ash and gas come out of it."


async def settle(s):
    for _ in range(6):
        s.app.tick()
        await s.pilot.pause()
    s.app.screen.set_focus(s.app.screen.focused, scroll_visible=False)


def still_rates(comparison):
    """Figures that a clock would blur."""
    for side in (comparison.first, comparison.second):
        record = side.record
        assert record is not None
        object.__setattr__(record, "decode_tok_s", 47.3)
        object.__setattr__(record, "ttft_s", 0.41)
    # scripted tokens have no ids of their own
    comparison.second.token_ids[4] = 1000


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("size", SIZES, ids=lambda one: f"{one[0]}x{one[1]}")
async def test_menus(seat, size, look):
    loads = {"nvfp4": Load(script=Script(answer=FOUR)), "fp8": Load(script=Script(answer=EIGHT))}
    menu = FakeMenu(loads)
    name = f"{look}-{size[0]}x{size[1]}"
    async with seat(
        opener=menu.opener("nvfp4"),
        profiles=menu,
        size=size,
        clock=still_clock(),
        chat__view="off",
        **LOOKS[look],
    ) as s:
        s.app.composer.cursor_blink = False
        await s.idle()
        await s.pilot.press("f3")
        await s.until(lambda: "bf16" in s.text)
        await s.pilot.press("down")
        await settle(s)
        assert_same(s.app, f"menu-profiles-{name}")
        await s.pilot.press("escape", "f4")
        await s.pilot.pause()
        for one in s.app.screen.query("TextField"):
            one.cursor_blink = False
        await s.pilot.press("1", "1")
        await settle(s)
        assert_same(s.app, f"menu-parameters-{name}")
        await s.pilot.press("ctrl+r", "escape", "f1")
        await settle(s)
        assert_same(s.app, f"menu-help-{name}")
        await s.pilot.press("escape")
        await s.send("what is a volcano?")
        await s.idle()
        await s.pilot.press("shift+f5")
        await s.pilot.pause()
        for one in s.app.screen.query("TextField"):
            one.cursor_blink = False
            one.value = "7" if one.name == "sampling.seed" else one.value
        await settle(s)
        assert_same(s.app, f"menu-retry-{name}")
        await s.pilot.press("escape")
        await s.send("/compare fp8")
        await s.until(lambda: s.app.screen.comparison.stage == "over")
        still_rates(s.app.screen.comparison)
        s.app.screen.show()
        await settle(s)
        assert_same(s.app, f"menu-compare-{name}")
