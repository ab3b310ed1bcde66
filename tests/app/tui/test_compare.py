"""F9 and /compare: the last prompt under two profiles, and the way back whatever happens."""

from functools import partial

import pytest

from app.tui.comparison import difference_at
from app.tui.screens.compare import CompareScreen
from app.tui.screens.profiles import COMPARES
from tests.fakes.engine import Script
from tests.fakes.profiles import FakeMenu, Load

FOUR = "A volcano is a mountain that can erupt with lava."
EIGHT = "A volcano is a hill that can erupt with lava."
SLOW = Script(answer=" ".join(f"word{n}" for n in range(200)), round_s=0.2)


@pytest.fixture
def chat(chat):
    """The same, with room for two answers."""
    return partial(chat, size=(120, 36), first=Script(answer=FOUR))


def words(s):
    return " ".join(s.text.replace("│", " ").split())


async def over(s):
    await s.until(lambda: s.app.screen.comparison.stage == "over")
    s.app.tick()
    await s.pilot.pause()


async def asked(s, text="what is a volcano?"):
    await s.idle()
    await s.send(text)
    await s.idle()


@pytest.mark.parametrize("beside", [True, False])
async def test_both_answers_stand_beside_each_other_and_the_first_profile_is_back(chat, beside):
    opening, loads = chat(beside=beside, fp8=Load(script=Script(answer=EIGHT)))
    async with opening as s:
        await asked(s)
        await s.pilot.press("f9")
        await s.until(lambda: "Compare with which" in s.text and "fp8" in s.text)
        assert "Enter compares" in s.text
        assert "Enter opens" not in s.text
        assert ("Enter", COMPARES) in s.app.screen.HELP_PART.rows
        await s.pilot.press("down", "enter")
        await s.until(lambda: isinstance(s.app.screen, CompareScreen))
        await over(s)
        row = next(one for one in s.text.split("\n") if "mountain" in one)
        assert "▸mountain" in row
        assert "▸hill" in row
        assert "of read bandwidth" in s.text
        assert "TTFT" in s.text
        assert s.app.chat.info.profile == "nvfp4"
        await s.pilot.press("escape")
        await s.pilot.pause()
        assert not isinstance(s.app.screen, CompareScreen)
        assert [one.content for one in s.app.chat.session.path_messages()] == [
            "what is a volcano?", FOUR,
        ]  # fmt: skip
        assert loads["nvfp4"].begun == (1 if beside else 2)
        assert loads["fp8"].engines[0].is_closed
        await asked(s, "and then?")
        assert len(loads["nvfp4"].engines[-1].requests) == (2 if beside else 1)


async def test_the_same_request_goes_to_both(chat):
    opening, loads = chat(fp8=Load(script=Script(answer=FOUR)))
    async with opening as s:
        await asked(s)
        await s.send("/compare fp8")
        await over(s)
        assert "The same 4 tokens" in s.text or "The same" in s.text
        first, second = (loads[name].engines[0].requests[-1] for name in ("nvfp4", "fp8"))
        assert first == second
        assert len(loads["nvfp4"].engines[0].requests) == 1  # its answer was known


async def test_an_answer_of_an_earlier_run_is_given_anew(chat, seat):
    opening, _ = chat()
    async with opening as s:
        await asked(s)
        session = s.app.chat.session.id
    menu = FakeMenu({"nvfp4": Load(script=Script(answer=FOUR)), "fp8": Load()})
    async with seat(opener=menu.opener("nvfp4"), profiles=menu, resume=session) as s:
        await s.idle()
        await s.send("/compare fp8")
        await over(s)
        (request,) = menu.loads["nvfp4"].engines[0].requests
        assert [one.content for one in request.messages] == ["what is a volcano?"]
        assert menu.loads["fp8"].engines[0].requests == [request]


async def test_escape_while_the_other_answers_goes_back_and_keeps_both_texts(chat):
    opening, _ = chat(fp8=Load(script=SLOW))
    async with opening as s:
        await asked(s)
        await s.send("/compare fp8")
        await s.until(lambda: "word12" in s.text)
        await s.pilot.press("escape")
        await over(s)
        assert "stopped" in s.text
        assert "word12" in s.text
        assert s.app.chat.info.profile == "nvfp4"
        await s.pilot.press("escape")
        await asked(s, "again")


@pytest.mark.parametrize("beside", [True, False])
async def test_escape_while_the_other_loads_goes_back(chat, beside):
    opening, loads = chat(beside=beside, fp8=Load(waits=True))
    async with opening as s:
        await asked(s)
        await s.send("/compare fp8")
        await s.until(lambda: loads["fp8"].begun == 1)
        await s.until(lambda: "33% of 18.0 GB" in s.text)
        await s.pilot.press("escape")
        await over(s)
        assert s.app.chat.phase == "idle"
        assert s.app.chat.info.profile == "nvfp4"


@pytest.mark.parametrize("beside", [True, False])
async def test_a_profile_that_does_not_load_is_told(chat, beside):
    opening, _ = chat(beside=beside, fp8=Load(fails="Shard 3 ends early."))
    async with opening as s:
        await asked(s)
        await s.send("/compare fp8")
        await over(s)
        assert "Shard 3 ends early." in s.text
        await s.pilot.press("escape")
        await asked(s, "again")


async def test_an_engine_that_fails_over_there_is_told_and_left(chat):
    opening, _ = chat(fp8=Load(script=Script(crashes_after=0)))
    async with opening as s:
        await asked(s)
        await s.send("/compare fp8")
        await over(s)
        assert "crashed" in s.text
        assert s.app.chat.info.profile == "nvfp4"


async def test_a_message_typed_meanwhile_is_answered_after_the_return(chat):
    opening, loads = chat(beside=False, fp8=Load())
    async with opening as s:
        await asked(s)
        loads["nvfp4"].waits = True
        await s.send("/compare fp8")
        await s.until(lambda: s.app.screen.comparison.stage == "returning")
        await s.pilot.press("escape")
        await s.pilot.pause()
        await s.send("meanwhile")
        assert s.app.chat.waiting.queued == "meanwhile"
        loads["nvfp4"].go.set()
        await s.until(lambda: len(s.app.chat.session.path_messages()) == 4)
        await s.idle()


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("/compare", "There is no prompt to compare"),
        ("/compare nvfp4", "There is no prompt to compare"),
    ],
)
async def test_without_a_prompt_there_is_nothing_to_compare(chat, line, sentence):
    opening, _ = chat(fp8=Load())
    async with opening as s:
        await s.idle()
        await s.send(line)
        assert sentence in s.text


async def test_the_loaded_profile_and_missing_ones_are_refused(chat):
    opening, _ = chat()
    async with opening as s:
        await asked(s)
        await s.send("/compare nvfp4")
        assert "is the one that is loaded" in s.text
        await s.send("/compare fp8")
        assert "cannot be opened" in s.text
        assert s.app.chat.phase == "idle"


async def test_narrow_answers_stand_one_below_the_other(chat):
    opening, _ = chat(size=(60, 24), fp8=Load(script=Script(answer=EIGHT)))
    async with opening as s:
        await asked(s)
        await s.send("/compare fp8")
        await over(s)
        rows = s.text.split("\n")
        first = next(i for i, row in enumerate(rows) if "▸mountain" in row)
        second = next(i for i, row in enumerate(rows) if "▸hill" in row)
        assert second > first + 3


@pytest.mark.parametrize(
    ("first", "second", "ended", "same"),
    [
        ("a mountain", "a hill", True, "a "),
        ("a mountain", "a hill", False, "a "),
        ("the same", "the same", True, None),
        ("begin", "begin and go on", False, None),
        ("begin", "begin and go on", True, ""),
        ("one two", "one twain", False, "one "),
        ("", "x", False, None),
    ],
)
def test_a_difference_begins_with_the_word_that_differs(first, second, ended, same):
    for one, other in ((first, second), (second, first)):
        at = difference_at(one, other, both_ended=ended)
        assert (None if at is None else one[:at]) == same
