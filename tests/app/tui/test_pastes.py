"""A long paste stands in the box as a sign and is sent in full; a short one is put in as it is."""

import time

import pytest

from app.tui.paste import PastedTexts
from tests.tries import tries


async def test_a_long_paste_is_a_sign_and_is_sent_in_full(seat):
    text = "\n".join(f"line {n} \x1b[2J" for n in range(212))
    async with seat() as s:
        await s.idle()
        await s.type("look: ")
        await s.paste(text)
        assert s.app.composer.text.startswith("look: [pasted text #1: 212 lines, ")
        await s.pilot.press("enter")
        await s.idle()
        sent = s.engine.requests[0].messages[-1].content
        assert sent.startswith("look: line 0 ␛[2J")
        assert sent.endswith("line 211 ␛[2J")


@pytest.mark.timing
async def test_a_paste_of_a_megabyte_stays_quick(seat):
    for _ in tries():
        async with seat() as s:
            await s.idle()
            s.app.composer.clear_all()
            began = time.perf_counter()
            await s.paste("x" * 1_000_000)
            await s.type("!")
            took_s = time.perf_counter() - began
            assert s.app.composer.text.endswith(": 1 line, 1.0 MB]!")
        if took_s < 0.5:
            return
    pytest.fail(f"it took {took_s:.2f} s")


async def test_a_short_paste_is_put_in_as_it_is(seat):
    async with seat() as s:
        await s.paste("two\r\nlines\x07")
        assert s.app.composer.text == "two\nlines␇"


def test_a_sign_of_thousands_of_lines_is_exchanged_for_them():
    pastes, text = PastedTexts(), "a line\n" * 5000
    assert pastes.paste(text) == "[pasted text #1: 5,001 lines, 35.0 KB]"
    assert pastes.expand("see [pasted text #1: 5,001 lines, 35.0 KB]") == f"see {text}"


def test_signs_that_the_person_typed_are_not_exchanged():
    pastes = PastedTexts()
    for number in ("1", "9" * 5000):  # Python reads no number of so many digits
        typed = f"[pasted text #{number}: 9 lines, 1.0 KB]"
        assert pastes.expand(typed) == typed
