"""Copying and reading outside: which text, and which way it went."""

import pytest

from tests.app.tui.test_branches import talk
from tests.fakes.engine import Script

TWO_BLOCKS = "One:\n\n```py\nx = 1\n```\n\nTwo:\n\n```sh\necho \x1b[2J\n```\n"


@pytest.mark.parametrize(
    ("line", "copied"),
    [
        ("/copy code", "echo ␛[2J"),
        ("/copy code 1", "x = 1"),
        ("/copy 1 code 2", "echo ␛[2J"),
        ("/copy 2", "first"),
    ],
)
async def test_copy_takes_an_answer_or_one_of_its_code_blocks(seat, line, copied):
    async with seat(Script(answer="first"), Script(answer=TWO_BLOCKS)) as s:
        await talk(s, "one", "two")
        await s.send(line)
        assert s.app.clipboard == copied
        assert "OSC 52" in s.state


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("/copy 9", "There is no message 9 of the model"),
        ("/copy code 3", "There is no code block 3; there are 2."),
        ("/copy 2 code", "There is no code block in that answer."),
        ("/copy code x", "'x' is no number of a code block."),
        ("/copy \u0662", "is no number of a message."),
        (f"/copy code {'9' * 5000}", "is no number of a code block."),
    ],
)
async def test_copy_says_what_is_not_there(seat, line, said):
    async with seat(Script(answer="first"), Script(answer=TWO_BLOCKS), size=(120, 36)) as s:
        await talk(s, "one", "two")
        await s.send(line)
        assert said in s.text
        assert s.app.clipboard == ""


async def test_o_hands_the_block_to_the_pager_and_says_when_that_cannot_be(seat, monkeypatch):
    shown = []
    monkeypatch.setattr(
        "app.tui.outside.read_outside", lambda app, text: shown.append(text) or "no"
    )
    async with seat(Script(answer=TWO_BLOCKS)) as s:
        await talk(s, "one")
        await s.pilot.press("tab", "k", "o")
        assert shown == ["echo ␛[2J"]
        s.app.action_run("/pager")
        assert shown[1].startswith("One:")
        assert "␛" in shown[1]
        assert s.state.strip().startswith("no")
