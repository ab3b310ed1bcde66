"""F3 and /profile: going from one profile to another while the chat runs, and every way back."""

import time

import pytest

from app.tui.screens.profiles import ProfileScreen
from app.tui.worker import EngineWorker
from app.tui.worker_events import EngineOpened, OpenFailed, ReturnBegan, SwitchFailed
from engine.errors import CancelledError
from tests.app.tui.test_worker import collect
from tests.fakes.engine import Script
from tests.fakes.profiles import FakeMenu, Load

SLOW = Script(answer=" ".join(f"word{n}" for n in range(200)), round_s=0.2)


def profile_of(s):
    return s.app.chat.info.profile


async def choose(s, row):
    await s.pilot.press("f3")
    await s.until(lambda: "nvfp4" in s.text and "files" in s.text)
    await s.pilot.press(*["down"] * row, "enter")


async def test_the_menu_lists_every_profile_and_marks_the_loaded_one(chat):
    opening, _ = chat(fp8=Load(), size=(120, 36))
    async with opening as s:
        await s.idle()
        await s.pilot.press("f3")
        await s.until(lambda: "bf16" in s.text)
        rows = {row.split()[1 if "●" in row else 0]: row for row in s.text.split("\n")
                if " GB " in row and "at most" in row for row in [row.strip(" ▌│▸")]}  # fmt: skip
        assert "loaded" in rows["nvfp4"]
        assert "here" in rows["fp8"]
        assert "missing" in rows["bf16"]
        assert "18.0 GB" in rows["nvfp4"]  # on disk
        assert "at most 14" in rows["nvfp4"]  # 235 GB/s over 17 GB
        await s.pilot.press("down")
        assert "cannot" not in s.text
        await s.pilot.press("escape")
        assert not isinstance(s.app.screen, ProfileScreen)


async def test_a_profile_whose_own_file_does_not_read_says_what_to_mend(chat):
    broken = {"fp8": "'fp8' stands twice.", "mine": "mine.toml: 'title' is 3, expected text."}
    opening, _ = chat(size=(120, 36), broken=broken)
    async with opening as s:
        await s.idle()
        await s.pilot.press("f3")
        await s.until(lambda: "mine" in s.text)
        assert "faulty" in next(row for row in s.text.split("\n") if "mine" in row)
        await s.pilot.press("end")
        assert "'title' is 3, expected text." in s.text
        await s.pilot.press("enter")
        assert "its own file does not read" in s.text
        assert profile_of(s) == "nvfp4"


async def test_a_profile_whose_files_are_missing_says_what_to_do(chat):
    opening, _ = chat()
    async with opening as s:
        await s.idle()
        await s.pilot.press("f3")
        await s.until(lambda: "bf16" in s.text)
        await s.pilot.press("down", "down", "down")
        assert "download" in s.text
        await s.pilot.press("enter")
        assert isinstance(s.app.screen, ProfileScreen)
        assert "its files are missing" in s.text


async def test_choosing_one_goes_there_and_keeps_conversation_and_draft(chat):
    opening, loads = chat(fp8=Load(script=Script(answer="eight bits")))
    async with opening as s:
        await s.idle()
        await s.send("hello")
        await s.idle()
        await s.type("half a thought")
        await choose(s, 2)
        await s.until(lambda: profile_of(s) == "fp8")
        await s.idle()
        assert loads["nvfp4"].engines[0].is_closed
        assert s.app.composer.text == "half a thought"
        assert "four bits" in s.text
        assert "fp8" in s.text.split("\n")[0]
        await s.pilot.press("enter")
        await s.idle()
        sent = [one.content for one in loads["fp8"].engines[0].requests[0].messages]
        assert sent == ["hello", "four bits", "half a thought"]
        assert "eight bits" in s.text


async def test_escape_gives_a_load_up_and_the_old_profile_answers(chat):
    opening, loads = chat(fp8=Load(waits=True))
    async with opening as s:
        await s.idle()
        await s.send("/profile fp8")
        await s.until(lambda: s.app.chat.seat.load is not None and s.app.chat.phase == "loading")
        s.app.tick()
        assert "33% of 18.0 GB" in s.state
        await s.send("typed meanwhile")
        assert s.app.chat.waiting.queued == "typed meanwhile"
        await s.pilot.press("escape")
        await s.idle()
        assert profile_of(s) == "nvfp4"
        assert loads["nvfp4"].begun == 1  # it never left
        assert s.app.composer.text == "typed meanwhile"
        await s.pilot.press("enter")
        await s.idle()
        assert "four bits" in s.text


async def test_without_room_for_both_the_old_profile_is_read_again(chat):
    opening, loads = chat(beside=False, fp8=Load(waits=True))
    async with opening as s:
        await s.idle()
        await s.send("/profile fp8")
        await s.until(lambda: loads["fp8"].begun == 1)
        assert loads["nvfp4"].engines[0].is_closed
        await s.pilot.press("escape")
        await s.idle()
        assert profile_of(s) == "nvfp4"
        assert loads["nvfp4"].begun == 2
        assert "goes on as before" in s.text


@pytest.mark.parametrize("beside", [True, False])
async def test_a_failed_load_goes_back_with_a_sentence(chat, beside):
    opening, _ = chat(beside=beside, fp8=Load(fails="Shard 3 of 11 ends early."))
    async with opening as s:
        await s.idle()
        await s.send("/profile fp8")
        await s.until(lambda: "Shard 3 of 11 ends early." in s.text)
        await s.idle()
        assert "'fp8' was not loaded: 'nvfp4' goes on as before." in " ".join(s.text.split())
        await s.send("still there?")
        await s.idle()
        assert "four bits" in s.text


async def test_a_switch_waits_for_the_answer_in_progress(chat):
    opening, loads = chat(first=SLOW, fp8=Load(script=Script(answer="eight bits")))
    async with opening as s:
        await s.idle()
        await s.send("go")
        await s.until(lambda: "word12" in s.text)
        await s.send("/profile fp8")
        assert "when this answer has ended" in s.state
        await s.send("and then")
        assert s.app.chat.is_busy
        await s.pilot.press("escape")
        await s.until(lambda: profile_of(s) == "fp8")
        await s.until(lambda: "eight bits" in s.text)
        assert loads["fp8"].engines[0].requests[0].messages[-1].content == "and then"
        assert "word12" in s.app.chat.session.path_messages()[1].content


async def test_what_was_queued_before_a_switch_comes_back_when_the_answer_is_stopped(chat):
    """It waited for that answer, as behind any that is stopped; what is typed then waits on."""
    opening, loads = chat(first=SLOW, fp8=Load(waits=True, script=Script(answer="eight bits")))
    async with opening as s:
        await s.idle()
        await s.send("go")
        await s.until(lambda: "word12" in s.text)
        await s.send("and then")
        await s.send("/profile fp8")
        assert "comes next, and answers what is queued" in s.state
        await s.pilot.press("escape")
        await s.until(lambda: loads["fp8"].begun == 1)
        await s.until(lambda: s.app.composer.text == "and then")
        assert not s.app.chat.waiting.queued
        await s.pilot.press("enter")
        assert s.app.chat.waiting.queued == "and then"
        loads["fp8"].go.set()
        await s.until(lambda: "eight bits" in s.text)
        assert loads["fp8"].engines[0].requests[0].messages[-1].content == "and then"


async def test_what_was_queued_before_a_switch_goes_to_it_when_the_answer_ends_by_itself(chat):
    opening, loads = chat(first=SLOW, fp8=Load(script=Script(answer="eight bits")))
    async with opening as s:
        await s.idle()
        await s.send("go")
        await s.until(lambda: "word2" in s.text)
        await s.send("and then")
        await s.send("/profile fp8")
        await s.until(lambda: "eight bits" in s.text)
        assert loads["fp8"].engines[0].requests[0].messages[-1].content == "and then"
        assert len(loads["nvfp4"].engines[0].requests) == 1
        assert "word199" in s.app.chat.session.path_messages()[1].content


async def test_each_answer_stays_under_the_name_of_who_wrote_it(chat):
    opening, _ = chat(fp8=Load(script=Script(answer="eight bits"), model="The other"))
    async with opening as s:
        await s.idle()
        await s.send("hello")
        await s.idle()
        await s.send("/profile fp8")
        await s.until(lambda: profile_of(s) == "fp8")
        await s.idle()
        await s.send("again")
        await s.until(lambda: "eight bits" in s.text)
        await s.idle()
        s.app.chat.show()
        kept = s.store.open(s.app.chat.session.id, write=False)
        names = [one.model for one in kept.path_messages() if one.role != "user"]
        assert names == ["Qwen3.8-27B", "The other"]
        assert all(name in s.text for name in names)


async def test_a_second_choice_takes_the_place_of_a_load_in_progress(chat):
    opening, loads = chat(beside=False, fp8=Load(waits=True), balanced=Load())
    async with opening as s:
        await s.idle()
        await s.send("/profile fp8")
        await s.until(lambda: loads["fp8"].begun == 1)
        await s.send("/profile balanced")
        await s.until(lambda: profile_of(s) == "balanced")
        await s.idle()
        assert loads["nvfp4"].begun == 1
        assert "was not loaded" not in s.text


async def test_there_and_back(chat):
    opening, loads = chat(fp8=Load())
    async with opening as s:
        await s.idle()
        for name in ("fp8", "nvfp4", "fp8"):
            await s.send(f"/profile {name}")
            await s.until(lambda: s.app.chat.info.profile == name)  # noqa: B023
            await s.idle()
        every = [one for load in loads.values() for one in load.engines]
        assert [one.is_closed for one in every].count(False) == 1


async def test_an_unknown_profile_is_refused_and_nothing_changes(chat):
    opening, _ = chat()
    async with opening as s:
        await s.idle()
        await s.send("/profile fp9")
        assert "cannot be opened" in s.text
        assert s.app.chat.phase == "idle"


async def test_a_replay_has_no_profiles(seat):
    async with seat() as s:
        await s.idle()
        await s.pilot.press("f3")
        assert "no profiles" in s.text


async def test_what_was_set_in_the_chat_stays_over_another_profile(chat):
    opening, _ = chat(fp8=Load())
    async with opening as s:
        await s.idle()
        await s.send("/set temperature 0.3")
        await s.send("/profile fp8")
        await s.until(lambda: profile_of(s) == "fp8")
        assert s.app._live.settings.sampling.temperature == 0.3


def test_a_failed_return_leaves_no_model_and_says_so():
    loads = {"nvfp4": Load(), "fp8": Load(fails="no such shard")}
    menu = FakeMenu(loads, beside=False)
    worker = EngineWorker(menu.opener("nvfp4"))
    worker.start()
    collect(worker, EngineOpened)
    loads["nvfp4"].fails = "the disk is gone"
    worker.switch(menu.opener("fp8"))
    events = collect(worker, OpenFailed)
    assert any(isinstance(one, ReturnBegan) for one in events)
    assert "the disk is gone" in str(events[-1].error)
    loads["nvfp4"].fails = ""
    worker.switch(menu.opener("nvfp4"))
    assert collect(worker, EngineOpened)[-1].info.profile == "nvfp4"
    worker.close()


def test_a_cancelled_return_ends_without_a_model():
    loads = {"nvfp4": Load(), "fp8": Load(waits=True)}
    menu = FakeMenu(loads, beside=False)
    worker = EngineWorker(menu.opener("nvfp4"))
    worker.start()
    collect(worker, EngineOpened)
    loads["nvfp4"].waits = True
    worker.switch(menu.opener("fp8"))
    while not loads["fp8"].begun:
        time.sleep(0.005)
    worker.cancel_load()
    collect(worker, ReturnBegan)
    worker.cancel_load()
    assert isinstance(collect(worker, OpenFailed)[-1].error, CancelledError)
    worker.close()


def test_a_crash_while_loading_is_a_failed_switch():
    menu = FakeMenu({"nvfp4": Load()})

    def crashes(on_progress, cancel):
        raise RuntimeError("no kernel image")

    worker = EngineWorker(menu.opener("nvfp4"))
    worker.start()
    worker.switch(crashes, beside=True)
    failed = collect(worker, (SwitchFailed, OpenFailed))[-1]
    assert "no kernel image" in str(failed.error)
    worker.close()
