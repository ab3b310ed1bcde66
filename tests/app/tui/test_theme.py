"""Every text is readable in every theme, and nothing is told by colour alone."""

import pytest
from rich.color import Color as RichColor
from textual.color import Color

from app.tui.screens.profiles import ProfileScreen
from app.tui.theme import ANSI, NAMES, THEMES, get_look
from tests.app.tui.conftest import screen_rows
from tests.fakes.engine import Script
from tests.fakes.profiles import FakeMenu, Load

AA = 4.5
"""WCAG 2.1, 1.4.3: normal text."""

NOT_TEXT = {"faint"}
"""Rules, borders and the dots between figures: what they part is clear without them."""

COLOURED = [theme for theme in THEMES if theme.name != ANSI]


def luminance(colour: Color) -> float:
    channels = [one / 255 for one in colour.rgb]
    r, g, b = (c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(one: Color, other: Color) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def text_styles(name):
    look = get_look(name)
    roles = (
        *("text", "dim", "user", "assistant", "accent", "notice", "error", "good", "code"),
        *("inline_code", "heading", "link"),
    )
    styles = {role: getattr(look, role) for role in roles}
    return styles | dict(look.syntax)


@pytest.mark.parametrize("theme", COLOURED, ids=lambda one: one.name)
def test_texts_stand_out_from_what_they_are_written_on(theme):
    surfaces = [Color.parse(getattr(theme, name)) for name in ("background", "surface")]
    low = [
        (role, surface.hex, round(contrast(Color.parse(style.color.name), surface), 2))
        for role, style in text_styles(theme.name).items()
        for surface in surfaces
        if contrast(Color.parse(style.color.name), surface) < AA
    ]
    assert not low


@pytest.mark.parametrize("theme", COLOURED, ids=lambda one: one.name)
def test_the_highlighted_row_of_a_list_can_be_read(theme):
    surface, primary = Color.parse(theme.surface), Color.parse(theme.primary)
    row = surface.blend(primary, 0.13)
    look = get_look(theme.name)
    for role in ("text", "dim", "notice", "good", "accent"):
        colour = Color.parse(getattr(look, role).color.name)
        assert contrast(colour, row) >= AA, (role, contrast(colour, row))


@pytest.mark.parametrize("theme", COLOURED, ids=lambda one: one.name)
def test_what_the_frame_writes_in_parts_of_a_colour_can_be_read(theme):
    paper = {name: Color.parse(getattr(theme, name)) for name in ("background", "surface", "panel")}
    text = Color.parse(theme.foreground)
    for share, on in ((0.65, "background"), (0.75, "surface"), (0.7, "panel")):
        blended = paper[on].blend(text, share)
        assert contrast(blended, paper[on]) >= AA, (share, on)
    for name in ("primary", "warning", "error"):
        assert contrast(Color.parse(getattr(theme, name)), paper["background"]) >= AA, name


def colours_on(app):
    found = set()
    for strip in app.screen._compositor.render_strips():
        for segment in strip:
            if segment.style is not None:
                found |= {segment.style.color, segment.style.bgcolor}
    return {one for one in found if one is not None and one != RichColor.parse("default")}


async def test_no_color_writes_no_colour(seat, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    menu = FakeMenu({"nvfp4": Load(script=Script(answer="**bold**\n\n```py\nx = 1\n```"))})
    async with seat(opener=menu.opener("nvfp4"), profiles=menu) as s:
        await s.idle()
        await s.send("go")
        await s.idle()
        drawn = [one for strip in s.app.screen._compositor.render_strips() for one in strip]
        for one in s.app._filters:
            drawn = one.apply(drawn, Color(0, 0, 0))
        colours = {c for one in drawn if one.style for c in (one.style.color, one.style.bgcolor)}
        assert colours <= {None, RichColor.parse("default")}


@pytest.mark.parametrize("word", NAMES)
async def test_every_theme_draws_and_marks_the_row_by_a_sign(seat, word):
    menu = FakeMenu({"nvfp4": Load(), "fp8": Load()})
    async with seat(opener=menu.opener("nvfp4"), profiles=menu, chat__theme=word) as s:
        await s.idle()
        await s.pilot.press("f3")
        await s.until(lambda: "bf16" in s.text)
        await s.pilot.press("down")
        rows = screen_rows(s.app)
        assert isinstance(s.app.screen, ProfileScreen)
        assert sum("▸" in one for one in rows) == 1
        assert "●" in next(one for one in rows if "nvfp4" in one and "loaded" in one)
        await s.pilot.press("escape")
        await s.send("/set theme dark")
        assert s.app.theme == "qwen38-dark"


async def test_ascii_draws_with_ascii_only(seat):
    menu = FakeMenu({"nvfp4": Load(), "fp8": Load()})
    async with seat(opener=menu.opener("nvfp4"), profiles=menu, chat__ascii=True) as s:
        await s.idle()
        for key in ("f3", "f4", "f1"):
            await s.pilot.press(key)
            await s.until(lambda: len(s.app.screen_stack) > 1)
            await s.pilot.pause(0.2)
            for row in screen_rows(s.app):
                assert row.isascii(), row
            await s.pilot.press("escape")
            await s.pilot.pause()


async def test_ascii_holds_whoever_draws(seat):
    """A box that scrolls, the palette, a list of bullets, ellipses, and signs for what hides."""
    answer = "- one\n- two … three\n\n---\n\n\x1b[2J\u202e\u200b \x9b" + " x" * 400
    async with seat(Script(answer=answer), chat__ascii=True, size=(60, 16)) as s:
        await s.idle()
        await s.send("go")
        await s.idle()
        await s.type("\n".join(f"line {n}" for n in range(40)))
        assert "line 39" in s.text
        for keys in ((), ("ctrl+p",), ("escape", "ctrl+f"), ("escape", "ctrl+r"), ("escape", "f2")):
            await s.pilot.press(*keys)
            await s.pilot.pause(0.2)
            for row in screen_rows(s.app):
                assert row.isascii(), row
