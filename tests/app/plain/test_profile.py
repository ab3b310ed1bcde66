"""/profile in the plain chat."""

import os
import signal
import threading
import time

import pytest

from app.interrupt import EndOnSignal
from app.plain.chat import talk
from engine.errors import RequestError
from tests.app.plain.test_plain import ListReader, state  # noqa: F401  (a fixture)
from tests.fakes.engine import Script
from tests.fakes.profiles import FakeMenu, Load


def test_profiles_are_lines_and_another_one_answers_on(state, capfd):  # noqa: F811
    menu = FakeMenu({"nvfp4": Load(), "fp8": Load(script=Script(answer="eight bits"))})
    now = state(Script(answer="four bits"), profiles=menu)
    talk(now, ListReader("/profile", "hello", "/profile fp8", "again", "/quit"))
    out, said = capfd.readouterr()
    assert "fp8: 30.0 GB on disk" in said
    assert "bf16: 55.0 GB" in said
    assert "missing. Give a checkpoint" in said
    assert "profile fp8, is loaded." in said
    assert out == "four bits\neight bits\n"
    sent = now.engine.requests[0].messages
    assert [one.content for one in sent] == ["hello", "four bits", "again"]
    (ahead,) = now.engine.ahead
    assert [one.content for one in ahead.messages] == ["hello", "four bits"]


def test_ctrl_c_leaves_the_reading_for_the_next_message(state, capfd):  # noqa: F811
    fp8 = Load(script=Script(answer="eight bits"), ahead={"ahead_steps": 500, "ahead_step_s": 0.02})
    now = state(Script(answer="four bits"), profiles=FakeMenu({"nvfp4": Load(), "fp8": fp8}))

    def interrupt():
        while not (fp8.engines and fp8.engines[0].ahead):
            time.sleep(0.005)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    talk(now, ListReader("hello", "/profile fp8", "again", "/quit"))
    out, said = capfd.readouterr()
    assert "The rest is read with the next message." in said
    assert out == "four bits\neight bits\n"


def test_what_cannot_be_read_ahead_is_said(state, capfd):  # noqa: F811
    fp8 = Load(ahead={"ahead_fails": RequestError("It has 9 tokens.", "Begin anew.")})
    now = state(Script(answer="four bits"), profiles=FakeMenu({"nvfp4": Load(), "fp8": fp8}))
    talk(now, ListReader("hello", "/profile fp8", "again", "/quit"))
    out, said = capfd.readouterr()
    assert "Request: It has 9 tokens. Begin anew." in said
    assert out.startswith("four bits\nA volcano")


@pytest.mark.parametrize("beside", [True, False])
def test_a_profile_that_does_not_open_leaves_the_old_one(state, capfd, beside):  # noqa: F811
    menu = FakeMenu({"nvfp4": Load(), "fp8": Load(fails="Shard 3 ends early.")}, beside)
    now = state(Script(), profiles=menu)
    first = now.engine
    talk(now, ListReader("/profile fp8", "/profile bf17", "hello", "/quit"))
    out, said = capfd.readouterr()
    assert "Shard 3 ends early. Download it again." in said
    assert "'fp8' was not loaded" in said
    assert "'bf17' cannot be opened" in said
    assert out.startswith("A volcano")
    assert first.is_closed == (not beside)


@pytest.mark.parametrize("beside", [True, False])
def test_compare_answers_twice_and_goes_back(state, capfd, beside):  # noqa: F811
    menu = FakeMenu({"nvfp4": Load(), "fp8": Load(script=Script(answer="a b x"))}, beside)
    now = state(Script(answer="a b c"), profiles=menu)
    lines = ("/compare fp8", "hello", "/compare fp8", "/compare nope", "/compare", "/quit")
    talk(now, ListReader(*lines))
    out, said = capfd.readouterr()
    assert "There is no prompt to compare" in said
    assert out == "a b c\na b c\na b x\n"
    assert "The same 3 tokens." in said  # scripted ids are places, not words
    assert "goes on as before" in said
    assert "'nope' cannot be opened" in said
    assert [one.content for one in now.session.path_messages()] == ["hello", "a b c"]


@pytest.mark.parametrize("line", ["/profile fp8", "/compare fp8"])
def test_an_end_that_is_asked_for_while_another_profile_loads_leaves_none_open(
    state,  # noqa: F811
    line,
):
    fp8 = Load(waits=True)
    menu = FakeMenu({"nvfp4": Load(), "fp8": fp8}, beside=False)
    now = state(Script(answer="four bits"), profiles=menu)
    asks = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGTERM))
    with EndOnSignal() as ends:
        asks.start()
        with pytest.raises(SystemExit) as left:
            talk(now, ListReader("hello", line, "never read"))
    assert left.value.code == 128 + signal.SIGTERM
    assert ends.signal == signal.SIGTERM
    assert all(one.is_closed for load in menu.loads.values() for one in load.engines)
