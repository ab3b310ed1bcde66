"""Every key through the real app."""

import pytest

from app.slash import SLASH_COMMANDS
from app.tui.keymap import KEYS
from app.tui.screens.help import HelpScreen
from app.tui.screens.resume import ResumeScreen
from tests.fakes.engine import Script

LONG = "\n\n".join(f"Paragraph number {n} of a long answer." for n in range(60))
SLOW = Script(answer=LONG, round_s=0.2)


async def test_enter_sends_and_the_answer_appears(seat):
    async with seat(Script(answer="It is **hot** rock.")) as s:
        await s.idle()
        await s.send("what is lava?")
        await s.until(lambda: "It is hot rock." in s.text)
        await s.idle()
        assert "what is lava?" in s.text
        assert s.app.composer.text == ""
        assert s.engine.requests[0].messages[-1].content == "what is lava?"


@pytest.mark.parametrize("key", ["ctrl+j", "alt+enter", "shift+enter"])
async def test_newline_keys(seat, key):
    async with seat() as s:
        await s.type("one")
        await s.pilot.press(key)
        await s.type("two")
        assert s.app.composer.text == "one\ntwo"
        assert s.app.composer.styles.height.value == 4


async def test_backslash_at_the_end_is_a_newline(seat):
    async with seat() as s:
        await s.type("one\\")
        await s.pilot.press("enter")
        assert s.app.composer.text == "one\n"


async def test_box_grows_to_a_third_of_the_screen_and_eight_rows(seat):
    async with seat(size=(80, 36)) as s:
        await s.type("\n" * 20)
        assert s.app.composer.styles.height.value == 10
        await s.pilot.resize_terminal(80, 12)
        await s.pilot.pause()
        assert s.app.composer.styles.height.value == 4


async def test_up_and_down_walk_the_history_and_keep_what_was_typed(seat):
    async with seat() as s:
        await s.idle()
        for prompt in ("first", "second"):
            await s.send(prompt)
            await s.idle()
        await s.type("half")
        await s.pilot.press("up")
        assert s.app.composer.text == "second"
        await s.pilot.press("up", "up")
        assert s.app.composer.text == "first"
        await s.pilot.press("down", "down")
        assert s.app.composer.text == "half"


async def test_history_survives_a_restart(seat):
    async with seat() as s:
        await s.idle()
        await s.send("remember me")
        await s.idle()
    async with seat() as s:
        await s.pilot.press("up")
        assert s.app.composer.text == "remember me"


async def test_escape_stops_and_keeps_text_and_what_was_typed(seat):
    async with seat(SLOW) as s:
        await s.idle()
        await s.send("go")
        await s.until(lambda: "Paragraph number 1" in s.text)
        assert "Esc stops and keeps the text" in s.state
        await s.type("typed meanwhile")
        await s.pilot.press("escape")
        await s.idle()
        assert s.app.composer.text == "typed meanwhile"
        assert "stopped, the text is kept" in s.text
        entry = s.app.chat.session.path_messages()[-1]
        assert entry.state == "stopped"
        assert "Paragraph number 1" in entry.content


async def test_escape_twice_clears_the_box_into_history(seat):
    async with seat() as s:
        await s.idle()
        await s.type("long thought")
        await s.pilot.press("escape")
        assert s.app.composer.text == "long thought"
        await s.pilot.press("escape")
        assert s.app.composer.text == ""
        await s.pilot.press("up")
        assert s.app.composer.text == "long thought"


async def test_control_c_stops_then_clears_then_quits(seat):
    async with seat(SLOW) as s:
        await s.idle()
        await s.send("go")
        await s.until(lambda: s.app.chat.phase == "writing")
        await s.type("draft")
        await s.pilot.press("ctrl+c")
        await s.idle()
        assert s.app.composer.text == "draft"
        await s.pilot.press("ctrl+c")
        assert s.app.composer.text == ""
        await s.pilot.press("ctrl+c")
        assert "Ctrl+C again quits" in s.state
        await s.pilot.press("ctrl+c")
        assert s.app._exit


async def test_control_c_copies_a_selection(seat):
    async with seat() as s:
        await s.type("copy this")
        s.app.composer.select_all()
        await s.pilot.press("ctrl+c")
        assert s.app.clipboard == "copy this"
        assert s.app.composer.text == "copy this"


async def test_mouse_selection_in_the_conversation_is_copied(seat):
    async with seat(Script(answer="Some answer text.")) as s:
        await s.idle()
        await s.send("hello")
        await s.idle()
        row = next(n for n, line in enumerate(s.text.split("\n")) if "Some answer" in line)
        await s.pilot.mouse_down(offset=(2, row))
        await s.pilot.hover(offset=(6, row))
        await s.pilot.mouse_up(offset=(6, row))
        await s.pilot.press("ctrl+c")
        assert s.app.clipboard.startswith("Some")


async def test_control_q_asks_only_while_answering(seat):
    async with seat(SLOW) as s:
        await s.idle()
        await s.send("go")
        await s.until(lambda: s.app.chat.phase == "writing")
        await s.pilot.press("ctrl+q")
        assert not s.app._exit
        await s.pilot.press("ctrl+q")
        assert s.app._exit


async def test_control_d_quits_only_with_an_empty_box(seat):
    async with seat() as s:
        await s.type("x")
        await s.pilot.press("ctrl+d")
        assert not s.app._exit
        await s.pilot.press("backspace", "ctrl+d")
        assert s.app._exit


async def test_control_n_begins_anew_and_control_r_goes_back(seat):
    async with seat(Script(answer="one"), Script(answer="two")) as s:
        await s.idle()
        await s.send("first talk")
        await s.idle()
        first = s.app.chat.session.id
        await s.pilot.press("ctrl+n")
        assert "first talk" not in s.text
        await s.send("second talk")
        await s.idle()
        await s.pilot.press("ctrl+r")
        await s.until(lambda: "first talk" in s.text)
        await s.pilot.press(*"first")
        await s.pilot.press("enter")
        await s.until(lambda: s.app.chat.session.id == first)
        await s.pilot.pause()
        assert "first talk" in s.text
        assert "second talk" not in s.text


async def test_resume_picker_deletes_at_the_second_press_only(seat):
    async with seat() as s:
        await s.idle()
        await s.send("old")
        await s.idle()
        await s.pilot.press("ctrl+n")
        await s.send("current")
        await s.idle()
        await s.pilot.press("ctrl+r")
        await s.until(lambda: "old" in s.text)
        await s.pilot.press("delete")
        assert "cannot be deleted" in s.text
        await s.pilot.press("down", "delete")
        assert "Del again" in s.text
        assert len(s.store.list()) == 2
        await s.pilot.press("delete")
        assert len(s.store.list()) == 1
        await s.pilot.press("escape")
        assert not isinstance(s.app.screen, ResumeScreen)


async def test_f5_answers_again_as_a_sibling(seat):
    async with seat(Script(answer="first try"), Script(answer="second try")) as s:
        await s.idle()
        await s.send("question")
        await s.idle()
        await s.pilot.press("f5")
        await s.until(lambda: "second try" in s.text)
        await s.idle()
        assert "first try" not in s.text
        last = s.app.chat.session.path_messages()[-1]
        assert [one.content for one in s.app.chat.session.tree().siblings(last.id)] == [
            "first try", "second try",
        ]  # fmt: skip


async def test_control_t_walks_the_ways_of_showing_thinking(seat):
    async with seat(Script(thinking="deep secret thought", answer="done")) as s:
        await s.idle()
        await s.send("go")
        await s.idle()
        assert "deep secret" not in s.text
        assert "▸ thought" in s.text
        assert "Ctrl+T shows it" in s.text
        await s.pilot.press("ctrl+t")
        assert "deep secret" in s.text
        assert "thinking is shown in full" in s.state
        await s.pilot.press("ctrl+t")
        assert "Ctrl+T shows it" not in s.text  # it hides it next
        assert "a click shows it" in s.text
        seen = {}
        for _ in range(4):
            await s.pilot.press("ctrl+t")
            await s.pilot.pause()
            mode = s.app._live.settings.chat.show_thinking
            seen[mode] = ("deep secret" in s.text, "thought" in s.text.replace("thought", "", 0))
        assert seen["open"][0]
        assert not seen["folded"][0]
        assert not seen["hidden"][0]


async def test_f1_shows_every_key_and_command(seat):
    async with seat(size=(120, 120)) as s:
        await s.pilot.press("f1")
        await s.pilot.pause()
        assert isinstance(s.app.screen, HelpScreen)
        for key in KEYS:
            assert key.label in s.text
        assert "/export" in s.text
        await s.pilot.press("escape")
        assert not isinstance(s.app.screen, HelpScreen)


async def test_scrolling_up_holds_and_end_follows_again(seat):
    async with seat(SLOW, size=(80, 20)) as s:
        await s.idle()
        await s.send("go")
        await s.until(lambda: "number 12" in s.text)
        await s.pilot.press("pageup")
        await s.pilot.pause()
        top = s.app.transcript.scroll_offset.y
        count = s.app.chat.rates.num_tokens
        await s.until(lambda: s.app.chat.rates.num_tokens > count + 20)
        assert s.app.transcript.scroll_offset.y == top
        assert "End follows again" in s.state
        await s.pilot.press("tab", "end")
        await s.until(lambda: s.app.transcript.is_following)
        count = s.app.transcript.scroll_offset.y
        await s.until(lambda: s.app.transcript.scroll_offset.y > count)
        await s.pilot.press("escape")


async def test_a_tick_of_the_wheel_holds_before_anything_scrolls(seat):
    async with seat(Script(answer=LONG), size=(80, 20)) as s:
        await s.idle()
        await s.send("go")
        await s.idle()
        transcript = s.app.transcript
        transcript.on_mouse_scroll_up(None)
        assert not transcript.is_following
        transcript.follow()
        await s.pilot.press("pageup")
        assert not transcript.is_following
        await s.pilot.press("pagedown", "pagedown")
        await s.until(lambda: transcript.is_following)


async def test_open_thinking_streams_in_full(seat):
    thinking = " ".join(f"thought{n}" for n in range(60))
    script = Script(thinking=thinking, answer="done", round_s=0.01)
    async with seat(script, size=(60, 30), chat__show_thinking="open") as s:
        await s.idle()
        await s.send("go")
        await s.until(lambda: "done" in s.text)
        await s.idle()
        assert "thought0 " in s.text
        assert "thought59" in s.text


async def test_y_copies_a_block_and_capital_y_the_answer(seat):
    answer = "Look:\n\n```py\nx = 1\ny = 2\n```\n\nDone."
    async with seat(Script(answer=answer)) as s:
        await s.idle()
        await s.send("code")
        await s.idle()
        await s.pilot.press("tab", "y")
        assert s.app.clipboard == "x = 1\ny = 2"
        assert "copied 2 lines" in s.state
        assert "OSC 52" in s.state
        await s.pilot.press("k", "k", "y")
        assert s.app.clipboard == "x = 1\ny = 2"
        await s.pilot.press("Y")
        assert s.app.clipboard == answer


async def test_a_text_too_long_for_the_clipboard_goes_to_a_file(seat, tmp_path):
    async with seat() as s:
        s.app.outside.copy("x" * 200_000)
        assert (tmp_path / "state" / "copied.md").read_text() == "x" * 200_000
        assert "too long for the clipboard" in s.state


async def test_control_g_keeps_the_text_when_no_editor_can_run(seat):
    async with seat() as s:
        await s.type("keep me")
        await s.pilot.press("ctrl+g")
        assert s.app.composer.text == "keep me"
        assert "editor" in s.state


async def test_control_l_and_palette_and_tab(seat):
    async with seat() as s:
        await s.pilot.press("ctrl+l")
        await s.pilot.press("ctrl+p")
        await s.pilot.pause(0.3)
        assert "/copy" in s.text
        await s.pilot.press("escape")
        await s.pilot.press("tab")
        assert s.app.focused is s.app.transcript
        await s.pilot.press("escape")
        assert s.app.focused is s.app.composer


async def test_slash_commands_complete_run_and_refuse(seat, tmp_path):
    async with seat() as s:
        await s.idle()
        await s.type("/exp")
        s.app.tick()
        assert "/export" in s.state
        await s.pilot.press("tab")
        assert s.app.composer.text == "/export "
        await s.send(str(tmp_path / "out.md"))
        assert (tmp_path / "out.md").exists()
        await s.send("/nonsense")
        assert "There is no command /nonsense" in s.text
        assert s.app.composer.text == "/nonsense"
        await s.pilot.press("ctrl+c")
        await s.send("/set theme light")
        assert s.app.theme == "qwen38-light"
        await s.send("/system be brief")
        await s.send("/session")
        await s.send("//literal")
        await s.idle()
        assert s.engine.requests[0].messages[0].content == "be brief"
        assert s.engine.requests[0].messages[-1].content == "/literal"


async def test_every_command_of_the_table_has_its_part_here(seat):

    async with seat() as s:
        assert s.app._commands.names == {one.name for one in SLASH_COMMANDS}
