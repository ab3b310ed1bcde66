"""``--trace``, ``/trace``, ``--replay`` and ``qwen38 trace`` through the real command line."""

import json
import os
import signal

import pytest

from tests.app.trace import perfetto
from tests.app.trace.scripted import ExactEngine, read, record

SLOW = {"answer": "word " * 400, "round_s": 0.02}


def test_where_a_trace_went_is_told_in_full(scripted, qwen38, tmp_path):
    done = scripted([], "run", "hi", "--trace", "x.json", cwd=tmp_path)
    assert f"The trace is in {tmp_path / 'x.json'}.".encode() in done.stderr


def test_run_writes_a_trace_that_says_what_its_record_says(scripted, qwen38, tmp_path):
    path = tmp_path / "x.json.gz"
    done = scripted([], "run", "hi", "--json", "--trace", str(path))
    assert done.returncode == 0
    record_ = json.loads(done.stdout)
    assert f"The trace is in {path}. Open it at https://ui.perfetto.dev".encode() in done.stderr
    perfetto.check(perfetto.load(path))
    shown = json.loads(qwen38("trace", str(path), "--json").stdout)
    (turn,) = shown["turns"]
    assert turn["decode_tok_s"] == pytest.approx(record_["decode_tok_s"], rel=1e-6)
    assert turn["num_tokens"] == len(record_["token_ids"])
    assert turn["num_rounds"] == len(record_["rounds"])
    for name in ("draft", "verify", "accept", "host"):
        assert turn["phase_ms"][name] == sum(one["ms"][name] for one in record_["rounds"])
    assert turn["num_bytes"] == sum(sum(one["bytes"].values()) for one in record_["rounds"])
    assert not list((tmp_path / "data").rglob("*.trace"))


def test_run_without_it_records_nothing(scripted, tmp_path):
    assert scripted([], "run", "hi").returncode == 0
    assert not list(tmp_path.rglob("*.trace"))


def test_ctrl_c_writes_what_there_is(interrupted, tmp_path):
    path = tmp_path / "x.json"
    done = interrupted([SLOW], "run", "hi", "--trace", str(path))
    assert done.returncode == 130
    assert b"The trace is in" in done.stderr
    perfetto.check(perfetto.load(path))
    (turn,) = read(path)
    assert turn.record.finish_reason == "cancelled"
    assert turn.record.rounds


def test_a_failure_of_the_engine_still_writes_it(scripted, tmp_path):
    path = tmp_path / "x.json"
    done = scripted([{"crashes_after": 2}], "run", "hi", "--trace", str(path))
    assert done.returncode == 1
    assert b"the scripted engine crashed" in done.stderr
    (turn,) = read(path)
    assert (turn.is_cut_off, len(turn.record.rounds)) == (True, 2)


def test_names_that_will_not_do_are_refused_before_the_work(scripted, tmp_path):
    for name, words in (
        ("notes.md", b"ends in .json or .json.gz"),
        ("none/x.json", b"does not exist"),
    ):
        for command in (("run", "hi"), ("chat",)):
            done = scripted([], *command, "--trace", str(tmp_path / name), input=b"hi")
            assert (done.returncode, words in done.stderr) == (2, True)
            assert done.stdout == b""


def test_a_refused_request_leaves_no_trace(scripted, tmp_path):
    path = tmp_path / "x.json"
    done = scripted([{"refuses": "Too long."}], "run", "hi", "--trace", str(path))
    assert done.returncode == 2
    assert b"no trace to write" in done.stderr
    assert not path.exists()


def test_a_piped_chat_records_beside_its_session(scripted, qwen38, tmp_path):
    assert scripted([], "chat", input=b"hello").returncode == 0
    (found,) = (tmp_path / "data" / "sessions").glob("*.trace")
    (session,) = json.loads(qwen38("sessions", "list", "--json").stdout)
    assert found.stem == session["id"]
    shown = qwen38("trace", session["id"])
    assert (shown.returncode, b"scripted" in shown.stdout) == (0, True)
    done = qwen38("trace", session["id"], "--export", str(tmp_path / "x.json"))
    assert done.returncode == 0
    perfetto.check(perfetto.load(tmp_path / "x.json"))
    assert qwen38("sessions", "delete", session["id"]).returncode == 0
    assert not found.exists()


def test_the_setting_switches_recording_off(scripted, tmp_path):
    off = ("--set", "trace.enabled=off")
    scripted([], "chat", *off, input=b"hello")
    assert not list(tmp_path.rglob("*.trace"))
    path = tmp_path / "x.json"
    scripted([], "chat", *off, "--trace", str(path), input=b"hello")
    assert len(read(path)) == 1


@pytest.mark.parametrize("form", ["--plain", ""])
def test_a_chat_that_a_signal_ends_writes_its_trace(on_terminal, tmp_path, form):
    path = tmp_path / "x.json"
    arguments = [one for one in ("chat", form, "--trace", str(path)) if one]
    with on_terminal([{"answer": "fine"}, SLOW], *arguments, columns=100) as terminal:
        terminal.wait_for("you>" if form else "ready")
        terminal.type("hello\r")
        terminal.wait_for("fine.*you>" if form else "first after")
        terminal.type("again\r")
        terminal.wait_for("word word word word")
        launcher, _ = terminal.family()
        os.kill(launcher, signal.SIGTERM)
        seen, code = terminal.exit_code()
    assert code == 143
    assert "The trace is in" in seen
    turns = read(path)
    assert [one.record.finish_reason for one in turns] in (["stop", "cancelled"], ["stop", "error"])
    perfetto.check(perfetto.load(path))


def test_slash_trace_in_the_plain_chat(on_terminal, tmp_path):
    path = tmp_path / "x.json"
    with on_terminal([], "chat", "--plain", columns=200) as terminal:
        terminal.wait_for("you>")
        terminal.type(f"/trace {path}\r")
        terminal.wait_for("There is no answer to trace yet.*you>")
        terminal.type("hello\r")
        terminal.wait_for("tok/s.*you>")
        terminal.type(f"/trace {path}\r")
        terminal.wait_for("Written to.*you>")
        terminal.type(f"/trace {path}\r")
        terminal.wait_for("exists already.*you>")
        terminal.type("/quit\r")
        assert terminal.exit_code()[1] == 0
    assert len(read(path)) == 1


def test_two_traces_side_by_side(qwen38, tmp_path):
    for name, verify in (("a", 16.0), ("b", 8.0)):
        record(
            tmp_path, engine=ExactEngine(ms=(2.0, verify, 1.0, 1.0)),
            path=tmp_path / f"{name}.trace",
        )  # fmt: skip
    names = [str(tmp_path / f"{name}.trace") for name in "ab"]
    text = qwen38("trace", *names).stdout.decode()
    assert "verify, ms a round" in text
    assert "-50.0%" in text
    data = json.loads(qwen38("trace", *names, "--json").stdout)
    assert data["change"]["verify, ms a round"] == pytest.approx(-0.5)
    assert data["a"]["total"]["num_rounds"] == data["b"]["total"]["num_rounds"] == 10


def test_bad_files_are_a_sentence_and_code_2(qwen38, tmp_path):
    (tmp_path / "x.json").write_text("{}")
    for name, words in (
        (str(tmp_path / "x.json"), "is no trace of qwen38."),
        (str(tmp_path / "none.json"), "is missing"),
        (str(tmp_path), "is no file"),
        ("20261129", "is neither a file nor a session"),
    ):
        done = qwen38("trace", name)
        said = done.stderr.decode()
        assert (done.returncode, done.stdout) == (2, b"")
        assert said.startswith("Trace: ")
        assert words in said
        assert said.count("\n") == 1
    done = qwen38("trace", "a", "b", "--export", str(tmp_path / "y.json"))
    assert (done.returncode, b"takes one trace" in done.stderr) == (2, True)
    done = qwen38("trace", "a", "--json", "--export", str(tmp_path / "y.json"))
    assert (done.returncode, b"no figures to stdout. Leave --json out" in done.stderr) == (2, True)


def test_a_replay_that_cannot_be_shown_is_refused(qwen38, tmp_path):
    path, _ = record(tmp_path)
    for arguments, words in (
        (("--replay", str(path)), b"A replay needs the full screen, but stdin is no terminal"),
        (("--replay", str(path), "--model", "x"), b"--replay opens no model"),
        (("--replay", str(path), "--plain"), b"--replay opens no model"),
        (("--replay", str(path), "--a11y"), b"--replay opens no model and needs the screen"),
        (("--replay", str(path), "--fps", "99"), b"'chat.fps' is 99, expected 0 to 60"),
        (("--speed", "2"), b"--speed is of a replay. Write --replay FILE beside it"),
        (("--replay", str(tmp_path / "none")), b"is missing"),
        (("--replay", str(path), "--speed", "0"), b"--speed is '0', expected it to be"),
    ):
        done = qwen38("chat", *arguments)
        assert (done.returncode, words in done.stderr) == (2, True), arguments


def test_a_replay_on_a_terminal_keeps_nothing(on_terminal, tmp_path):
    path, _ = record(tmp_path, engine=ExactEngine(rounds=4))
    with on_terminal([], "chat", "--replay", str(path), "--ascii", columns=100) as terminal:
        assert "╭" not in terminal.wait_for("A replay of a trace.*first after")
        terminal.type("\x11")
        seen, code = terminal.exit_code()
        assert code == 0
        assert "--resume" not in seen
        assert terminal.is_as_before()
    assert not (tmp_path / "data").exists()
    assert not (tmp_path / "state").exists()
