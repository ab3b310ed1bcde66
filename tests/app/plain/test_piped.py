"""What is piped into the chat: one message, or with --plain a message a line."""

import json
import os

import pytest

from app.streams import MAX_INPUT_BYTES

ANSWER = "A volcano is a mountain that can erupt.\n"


def messages(scripted):
    listed = scripted([], "sessions", "list", "--json")
    (one,) = json.loads(listed.stdout)
    shown = scripted([], "sessions", "export", one["id"], "--format", "json")
    return [(one["role"], one["content"]) for one in json.loads(shown.stdout)["messages"]]


def test_without_an_option_all_of_it_is_one_message_and_the_answer_ends_its_line(scripted):
    done = scripted([], "chat", input=b"first line\n/quit\nlast line\n")
    assert (done.returncode, done.stdout.decode()) == (0, ANSWER)
    assert messages(scripted)[0] == ("user", "first line\n/quit\nlast line")


@pytest.mark.parametrize("option", ["--plain", "--a11y"])
def test_with_an_option_each_line_is_a_message_or_a_command(scripted, option):
    lines = b"one\n/set temperature 0.5\n\ntwo and\\\nmore\n/quit\nnever read\n"
    done = scripted([], "chat", option, input=lines)
    assert (done.returncode, done.stdout.decode()) == (0, ANSWER * 2)
    said = done.stderr.decode()
    assert "sampling.temperature is 0.5 (/set)." in said
    assert "you>" not in said
    assert [text for role, text in messages(scripted) if role == "user"] == ["one", "two and\nmore"]


def test_a_last_line_without_an_end_is_a_message(scripted):
    assert scripted([], "chat", "--plain", input=b"one\ntwo").stdout.decode() == ANSWER * 2


def test_a_setting_for_screen_readers_leaves_a_pipe_one_message(scripted):
    done = scripted([], "chat", "--set", "chat.a11y=on", input=b"one\ntwo\n")
    assert done.stdout.decode() == ANSWER


def test_a_line_that_fails_is_said_the_others_are_answered_and_the_exit_code_tells(scripted):
    done = scripted([], "chat", "--plain", input=b"one\n/nope\ntwo\n")
    assert (done.returncode, done.stdout.decode()) == (2, ANSWER * 2)
    assert b"There is no command /nope" in done.stderr


def test_bytes_that_are_no_utf_8_are_replaced_and_that_is_said(scripted):
    done = scripted([], "chat", "--plain", input=b"\xff\xfe\n")
    assert (done.returncode, done.stdout.decode()) == (0, ANSWER)
    assert b"Some bytes of stdin are no UTF-8" in done.stderr
    assert messages(scripted)[0] == ("user", "\N{REPLACEMENT CHARACTER}" * 2)


@pytest.mark.parametrize("endless", [b"x" * 10_000, b"x" * 10_000 + b"\\\n"])
def test_a_message_without_an_end_is_refused_before_it_fills_the_memory(scripted, endless):
    done = scripted([], "chat", "--plain", input=b"one\n" + endless * 2_000)
    assert 2_000 * len(endless) > MAX_INPUT_BYTES
    assert (done.returncode, done.stdout.decode()) == (2, ANSWER)
    assert b"A message from stdin holds more than 16,777,216 bytes" in done.stderr
    assert len(messages(scripted)) == 2


def test_an_empty_pipe_is_an_empty_talk(scripted):
    done = scripted([], "chat", "--plain", input=b"")
    assert (done.returncode, done.stdout) == (0, b"")


@pytest.mark.parametrize("option", ["--plain", "--a11y"])
def test_without_a_stdin_there_is_no_prompt(scripted, option):
    done = scripted([], "chat", option, preexec_fn=lambda: os.close(0))
    assert done.returncode == 2
    assert done.stderr.startswith(b"Request: There is no prompt.")
