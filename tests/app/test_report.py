"""One sentence is one line on stderr, whatever it quotes, and a failure never tells of itself."""

import errno
import fcntl
import os
import struct
import sys
import termios

import pytest

from app.report import exit_code, report, say, say_lines
from engine.errors import CheckpointError, RequestError, TemplateError


def test_foreign_text_forges_no_second_line(capsys, tmp_path):
    report(RequestError("no '/tmp/x\r\nqwen38: fine\tyes\u2028'."), tmp_path)
    assert capsys.readouterr().err == "Request: no '/tmp/x␍␊qwen38: fine␉yes␤'.\n"
    say("one\ntwo")
    assert capsys.readouterr().err == "one␊two\n"


def test_a_terminal_gets_it_broken_between_words(monkeypatch):
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 20, 0, 0))
    with os.fdopen(slave, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        say("a long-winded sentence of a/path/that/is/longer/than/a/row")
        shown = os.read(master, 1000).decode().split("\r\n")
    os.close(master)
    assert shown == ["a long-winded", "sentence of", "a/path/that/is/longer/than/a/row", ""]


def test_our_own_lines_stay_lines(capsys):
    say_lines("one\ntwo \x1b[2J")
    assert capsys.readouterr().err == "one\ntwo ␛[2J\n"


def test_a_damaged_model_and_a_template_that_refuses_have_one_code():
    assert exit_code(CheckpointError("x.")) == exit_code(TemplateError("x.")) == 3


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOSPC, errno.EIO])
def test_what_the_system_refuses_is_a_sentence_without_a_log(capsys, tmp_path, number):
    assert report(OSError(number, os.strerror(number), "/a/b"), tmp_path) == 1
    assert capsys.readouterr().err == f"System: {os.strerror(number)} (/a/b).\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("folder", ["a\0b", "/dev/null/logs"])
def test_a_log_that_cannot_be_written_is_told(capsys, folder, tmp_path):
    assert report(RuntimeError("lost"), tmp_path / folder) == 1
    assert "Something broke: RuntimeError: lost. Its log could not" in capsys.readouterr().err
