"""The plain chat: messages, commands, a Ctrl+C that keeps the text, and a terminal left sane."""

import os
import signal
import threading

import pytest
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from app.interrupt import EndOnSignal
from app.live import LiveSettings
from app.plain.chat import talk
from app.plain.prompt import EditingReader
from app.plain.state import PlainState
from app.sessions.history import PromptHistory
from app.sessions.store import SessionStore
from engine.errors import RequestError
from engine.settings.declared import KNOWN
from engine.settings.registry import Resolved
from tests.fakes.engine import Script, ScriptedEngine

ANSWER = "A volcano is a mountain that can erupt."


class ListReader:
    def __init__(self, *lines):
        self.lines = list(lines)
        self.drafts = []

    def read(self, draft):
        self.drafts.append(draft)
        return self.lines.pop(0) if self.lines else None


@pytest.fixture
def state(tmp_path):
    def make(*scripts, profiles=None):
        resolved = {name: Resolved(one.default, "default") for name, one in KNOWN.items()}
        resolved["paths.state"] = Resolved(tmp_path / "state", "test")
        store = SessionStore(tmp_path / "sessions")
        engine = ScriptedEngine(list(scripts) or [Script()])
        session = store.create("scripted", "demo", "")
        history = PromptHistory(tmp_path / "history.jsonl")
        live = LiveSettings.of(resolved)
        opener = profiles.opener("nvfp4") if profiles else lambda progress, cancel: engine
        return PlainState(engine, opener, store, session, live, history, profiles=profiles)

    return make


@pytest.fixture
def ends():
    with EndOnSignal() as asked:
        yield asked


def test_a_talk_is_answered_and_kept(state, capfd):
    now = state()
    assert talk(now, ListReader("hello", "", "//slash")) == 0
    out, errors = capfd.readouterr()
    assert out == f"{ANSWER}\n" * 2
    assert "tok/s" in errors
    assert "5/9 drafts accepted" in errors
    assert [one.content for one in now.session.path_messages()] == [
        "hello", ANSWER, "/slash", ANSWER,
    ]  # fmt: skip
    assert f"--resume {now.session.id}" in errors
    assert [one.content for one in now.engine.requests[1].messages][-1] == "/slash"


def test_commands_do_what_they_say(state, capfd, tmp_path):
    now = state()
    target = tmp_path / "talk.md"
    reader = ListReader(
        *("/system be brief", "hello", "/redo", "/set temperature 0.5", "/think off", "/session"),
        *("/sessions", f"/export {target}", f"/export {target}", "/stop", "/help", "/nope"),
        *("/copy 7", "/redo now", "/stop now", "/new", "/redo", "/resume", "/set", "/quit"),
        "never read",
    )
    first = now.session.id
    talk(now, reader)
    errors = capfd.readouterr().err
    assert reader.lines == ["never read"]
    path = now.session.path_messages()
    assert now.session.id == first
    assert len(now.session.tree().siblings(path[1].id)) == 2
    assert now.engine.requests[1].messages[0].content == "be brief"
    for words in (
        *("System prompt: be brief", "sampling.temperature is 0.5 (/set)", "chat.thinking is off"),
        *("2 messages", str(now.session.path), f"Written to {target}.", "exists already"),
        *("Nothing is being written", "/export [FILE]", "There is no command /nope"),
        *("There is no message 7", "takes nothing", "A new conversation", "no message to answer"),
    ):
        assert words in errors, words
    assert "\u240a" not in errors  # every line of a list is a line
    assert target.read_text().startswith("# hello")


def test_the_conversation_at_hand_is_deleted_when_asked_twice(state, capfd):
    now = state()
    first = now.session.id
    asked = ("/delete", "hello", f"/delete {first[:13]}", "/delete", "/tree", "/delete", "hello")
    talk(now, ListReader(*asked))
    said = capfd.readouterr().err
    assert "There is nothing to delete yet." in said
    assert "is open in another window or in this one. Leave it there first" in said
    assert "Deleted" not in said
    assert talk(now, ListReader("/delete", f"/delete {first}", "/sessions", "hello")) == 0
    said = capfd.readouterr().err
    assert said.index("deletes this conversation for good") < said.index(f"Deleted {first}.")
    assert [one.id for one in now.store.list()] == [now.session.id] != [first]


def test_a_conversation_that_the_disk_refused_is_not_left_before_it_is_elsewhere(
    state, capfd, tmp_path
):
    (tmp_path / "sessions").write_text("a file in the place of the folder")
    now = state()
    target = tmp_path / "talk.md"
    talk(now, ListReader("hello", "/new", f"/export {target}", "/new", "/quit"))
    errors = capfd.readouterr().err
    assert errors.count("is not on disk (Not a directory) and would be lost. Write it else") == 1
    assert errors.index("would be lost") < errors.index("Written to")
    assert errors.index("Written to") < errors.index("A new conversation.")
    assert "hello" in target.read_text()


def test_thinking_is_asked_for_and_kept(state, capfd):
    now = state(Script(thinking="let me see"))
    talk(now, ListReader("hello", "/think", "hello"))
    first, second = (one for one in now.session.path_messages() if one.role == "assistant")
    assert first.reasoning == "let me see"
    assert second.reasoning == ""
    assert capfd.readouterr().out == f"{ANSWER}\n" * 2


def test_ctrl_c_stops_the_answer_and_keeps_the_text(state, capfd):
    now = state(Script(answer="word " * 300, round_s=0.02), Script())
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    assert talk(now, ListReader("hello", "and again")) == 130  # for a script: no terminal here
    timer.join()
    stopped = now.session.path_messages()[1]
    assert stopped.reason == "cancelled"
    assert stopped.content.startswith("word word")
    assert now.session.path_messages()[3].content == ANSWER
    assert "stopped ]" in capfd.readouterr().err


def test_sigterm_in_mid_answer_ends_the_program_with_the_text_kept(state):
    now = state(Script(answer="word " * 300, round_s=0.02))
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGTERM))
    timer.start()
    assert talk(now, ListReader("hello", "never asked")) == 143
    timer.join()
    assert len(now.session.path_messages()) == 2


def test_failures_of_the_engine_keep_the_conversation(state, capfd):
    now = state(
        Script(crashes_after=1), Script(fails_after=1), Script(refuses=RequestError("Too long.")),
        Script(),
    )  # fmt: skip
    talk(now, ListReader("one", "two", "three", "four"))
    errors = capfd.readouterr().err
    for words in ("The engine broke: RuntimeError", "device was lost", "Request: Too long."):
        assert words in errors
    answers = [one for one in now.session.path_messages() if one.role == "assistant"]
    assert [one.content for one in answers] == ["A volcano is", "A volcano is", ANSWER]
    assert all(one.content for one in now.engine.requests[3].messages)


def test_a_refused_message_becomes_the_draft_and_the_talk_goes_on_before_it(state, capfd):
    refused = Script(refuses=RequestError("Too long."))
    now = state(Script(), refused, refused, Script())
    reader = ListReader("one", "//long", "/redo", "two")
    talk(now, reader)
    assert reader.drafts == ["", "", "//long", "", ""]
    assert capfd.readouterr().err.count("Request: Too long.") == 2
    assert [one.content for one in now.engine.requests[3].messages] == ["one", ANSWER, "two"]
    assert "/long" in [one.content for one in now.session.messages.values()]
    now.session.close()
    again = now.store.open(now.session.id)
    assert [one.content for one in again.path_messages()] == ["one", ANSWER, "two", ANSWER]


def test_a_refused_first_message_leaves_an_empty_conversation_with_its_draft(state, capfd):
    now = state(Script(refuses=RequestError("Too long.")), Script())
    talk(now, ListReader("long"))
    now.session.close()
    again = now.store.open(now.session.id)
    assert (again.path_messages(), again.draft, again.title) == ([], "long", "long")
    now.session = again
    talk(now, ListReader("short"))
    assert [one.content for one in again.path_messages()] == ["short", ANSWER]
    assert again.title == "short"
    assert again.draft == ""
    assert "Too long" in capfd.readouterr().err


def test_an_engine_that_says_nothing_at_all_counts_as_a_refusal(state, capfd, monkeypatch):
    now = state()
    monkeypatch.setattr(now.engine, "generate", lambda request, stop: iter(()))
    talk(now, ListReader("hello"))
    assert now.session.path_messages() == []
    assert now.session.draft == "hello"
    assert "ended without an answer" in capfd.readouterr().err


def test_the_prompt_edits_completes_and_keeps_the_draft(tmp_path, ends):
    kept = []
    history = PromptHistory(tmp_path / "history.jsonl")
    history.add("an earlier one")
    with create_pipe_input() as keys:
        reader = EditingReader(ends, history, kept.append, keys, DummyOutput())
        keys.send_text("one\x0atwo\\\rthree\r")
        assert reader.read("") == "one\ntwo\nthree"
        keys.send_text("\x1b[200~pasted\nlines\x1b[201~\r")
        assert reader.read("") == "pasted\nlines"
        keys.send_text(" more\r")
        assert reader.read("a draft") == "a draft more"
        keys.send_text("typed\x03\x03")
        assert reader.read("") is None
    assert "an earlier one" in PromptHistory(tmp_path / "history.jsonl").entries()
    assert "one\ntwo\nthree" in PromptHistory(tmp_path / "history.jsonl").entries()
    assert kept


def test_without_an_editor_ctrl_x_ctrl_e_says_so_and_keeps_the_text(
    tmp_path, ends, monkeypatch, capfd
):
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("VISUAL", "EDITOR"):
        monkeypatch.delenv(name, raising=False)
    with create_pipe_input() as keys:
        reader = EditingReader(ends, PromptHistory(tmp_path / "h"), [].append, keys, DummyOutput())
        keys.send_text("kept\x18\x05\r")
        assert reader.read("") == "kept"
    assert "No editor was found: set EDITOR to one." in capfd.readouterr().err


def test_a_megabyte_is_pasted(tmp_path, ends):
    paste = "word " * 200_000
    with create_pipe_input() as keys:
        reader = EditingReader(
            ends, PromptHistory(tmp_path / "h"), lambda _: None, keys, DummyOutput()
        )
        writer = threading.Thread(target=keys.send_text, args=(f"\x1b[200~{paste}\x1b[201~\r",))
        writer.start()
        assert reader.read("") == paste
        writer.join()


def test_a_whole_talk_on_a_terminal(on_terminal):
    script = {"answer": "It erupts \x1b]0;owned\x07 sometimes.", "thinking": "hm"}
    with on_terminal([script], "chat", "--plain") as terminal:
        terminal.wait_for("demo model.*you>")
        terminal.type("hello\r")
        seen = terminal.wait_for("tok/s.*you>")
        assert "It erupts ␛]0;owned␇ sometimes." in seen
        assert "\x1b]0;owned" not in seen
        terminal.type("/quit\r")
        seen, code = terminal.exit_code()
        assert code == 0
        assert "--resume" in seen
        assert terminal.is_as_before()


def test_ctrl_c_on_a_terminal_stops_the_answer_only(on_terminal):
    with on_terminal([{"answer": "word " * 400, "round_s": 0.02}], "chat", "--plain") as terminal:
        terminal.wait_for("you>")
        terminal.type("hello\r")
        terminal.wait_for("word word word")
        terminal.type("\x03")
        assert "stopped ]" in terminal.wait_for("tok/s.*you>")
        terminal.type("\x04")
        assert terminal.exit_code()[1] == 0


def test_a_dumb_terminal_gets_lines(on_terminal, environment):
    environment["TERM"] = "dumb"
    with on_terminal([], "chat") as terminal:
        assert "TERM is dumb" in terminal.wait_for("you>")
        terminal.type("two \\\nlines\n")
        assert ANSWER in terminal.wait_for("tok/s")
        terminal.wait_for("you>")
        terminal.type("\x04")
        seen, code = terminal.exit_code()
        assert code == 0
        assert "\x1b" not in seen


@pytest.mark.parametrize("option", ["--plain", "--a11y"])
def test_ctrl_c_at_the_prompt_of_a_dumb_terminal_leaves_as_on_any_other(
    on_terminal, environment, option
):
    environment["TERM"] = "dumb"
    with on_terminal([], "chat", option) as terminal:
        terminal.wait_for("(?i)you(>|:) ")
        terminal.type("hello\n")
        terminal.wait_for("tok/s.*(?i:you)(>|:) ")
        terminal.type("\x03")
        seen, code = terminal.exit_code()
        assert code == 0
        assert "The conversation is kept" in seen


def test_a_tiny_window_gets_the_plain_form(on_terminal):
    with on_terminal([], "chat", columns=30, rows=8) as terminal:
        assert "30 x 8 cells" in " ".join(terminal.wait_for("demo").split())


def test_branches_find_and_continue_are_commands_here_too(state, capfd):
    now = state(
        Script(answer="word " * 9, fails_after=2), Script(answer=" and on"), Script(answer="b")
    )
    reader = ListReader(
        *("hello", "/continue", "/edit 1", "hello again", "/tree", "/branch 1", "/find WORD"),
        *("/branch 7", "/rename Talk", "/edit 9", "/now", "/delete 2", "/quit"),
    )
    talk(now, reader)
    errors = capfd.readouterr().err
    assert [one.content for one in now.session.path_messages()] == [
        "hello", "word word word word word word and on",
    ]  # fmt: skip
    assert reader.drafts[3] == "hello"
    for words in (
        *("message 1 of 2  hello", "message 1 of 2  hello again", "model: word word"),
        *("There is no branch 7", "is called: Talk", "There is no message 9 of yours"),
        *("full screen only", "too little of an id to delete by"),
    ):
        assert words in errors, words


def test_retry_tells_the_values_and_answers_with_others(state, capfd):
    now = state()
    assert talk(now, ListReader("hello", "/retry", "/retry temperature=0.2 seed=7", "more")) == 0
    asked = now.engine.requests
    assert (asked[1].sampling.temperature, asked[1].sampling.seed) == (0.2, 7)
    assert [one.content for one in asked[1].messages] == ["hello"]
    assert asked[2].sampling.temperature == 1.0
    errors = capfd.readouterr().err
    assert f"That answer had: sampling.seed={asked[0].sampling.seed}." in errors
    answers = [one for one in now.session.messages.values() if one.role == "assistant"]
    assert answers[1].made_with == {"sampling.temperature": "0.2", "sampling.seed": "7"}


def test_a_file_goes_along_and_its_cost_is_said(state, capfd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").write_text("one two three")
    now = state()
    lines = ("/read notes.txt", "see @notes.txt", "/edit 1", "see @./nothing", "/read")
    reader = ListReader(*lines)
    assert talk(now, reader) == 2  # the last line was refused
    assert now.engine.requests[0].messages[-1].content == (
        'see @notes.txt\n\n<file name="notes.txt">\none two three\n</file>'
    )
    errors = capfd.readouterr().err
    assert "notes.txt: 6 tokens. Write @notes.txt in a message." in errors
    assert "notes.txt: 6 tokens." in errors
    assert "There is no file ./nothing." in errors
    assert reader.drafts[3:5] == ["see @notes.txt", "see @./nothing"]


@pytest.mark.parametrize("while_busy", ["loading", "answering"])
def test_a_line_that_was_typed_ahead_is_sent_when_the_prompt_comes(on_terminal, while_busy):
    script = {"answer": "word " * 40 + "done", "round_s": 0.02}
    with on_terminal([script, script], "chat", "--plain") as terminal:
        if while_busy == "answering":
            terminal.wait_for("you>")
            terminal.type("hello\r")
            terminal.wait_for("word")
        terminal.type("ahead of you\r")
        seen = terminal.wait_for("you> ahead of you.*done.*tok/s.*you>")
        assert "...>" not in seen
        terminal.type("/quit\r")
        assert terminal.exit_code()[1] == 0


def test_several_lines_that_were_typed_ahead_wait_in_the_prompt(on_terminal):
    script = {"answer": "word " * 40 + "done", "round_s": 0.02}
    with on_terminal([script, script], "chat", "--plain") as terminal:
        terminal.wait_for("you>")
        terminal.type("hello\r")
        terminal.wait_for("word")
        terminal.type("a paste\rof lines\r")
        terminal.wait_for("tok/s.*you>.*a paste.*of lines")
        terminal.type("\x03")
        terminal.type("\x04")
        assert terminal.exit_code()[1] == 0
