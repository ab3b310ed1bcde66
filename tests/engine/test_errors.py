"""What is near to a name is guessed by one rule, for every kind of name."""

import errno

import pytest

from engine.errors import (
    MAX_LISTED,
    MAX_MESSAGE,
    EngineError,
    RequestError,
    did_you_mean,
    how_to_read,
    how_to_write,
    nearest,
)

COMMANDS = ("new", "now", "export", "profile", "resume", "find", "stop", "compare")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("exprt", "export"), ("enw", "new"), ("rpofile", "profile"), ("prof", "profile"),
     ("res", "resume"), ("f", "find"), ("stoop", "stop"),
     ("cmopare", "compare"), ("stoo", "stop")],
)  # fmt: skip
def test_a_slip_of_the_hand_and_a_beginning_are_understood(typed, meant):
    assert did_you_mean(typed, COMMANDS) == f"Did you mean '{meant}'?"


@pytest.mark.parametrize(
    "typed", ["export", "open", "foo", "clear", "n", "", "x", "import", "temperature"]
)
def test_what_is_known_near_to_none_or_begins_several_is_not_guessed(typed):
    assert did_you_mean(typed, COMMANDS) == ""


def test_a_word_for_another_thing_is_not_taken_for_a_slip():
    assert did_you_mean("gpu", ("auto", "cpu", "cuda")) == "Did you mean 'cuda'?"
    assert did_you_mean("gpu", ("auto", "cpu")) == "Did you mean 'cpu'?"


def test_without_a_guess_what_is_known_is_listed():
    assert nearest("exprt", COMMANDS) == "Did you mean 'export'?"
    assert nearest("volcano", ("b", "a")) == "Known are: a, b."
    assert nearest("volcano", map(str, range(MAX_LISTED + 1))) == ""
    assert nearest("volcano", ()) == ""


@pytest.mark.parametrize("length", [1, 900, 5_000, 5_000_000])
def test_a_value_without_end_leaves_a_sentence_to_read(length):
    told = str(RequestError(f"--shape is '{'a' * length}', expected 27b or demo.", "Take one."))
    assert told.startswith("--shape is 'a")
    assert told.endswith("a', expected 27b or demo. Take one.")
    assert len(told) <= min(length + 100, MAX_MESSAGE + 10)


def test_an_error_is_its_message_and_how_to_mend_it():
    assert str(EngineError("No.", "Do this.")) == "No. Do this."
    assert str(EngineError("No.")) == "No."


@pytest.mark.parametrize(
    ("number", "mend"),
    [(errno.ENOSPC, "Make room, or give a place on another disk."),
     (errno.EROFS, "Give a place that you may write to."),
     (errno.EACCES, "Give a place that you may write to."), (errno.EIO, "Give another place.")],
)  # fmt: skip
def test_a_disk_that_refuses_is_told_with_what_to_do(number, mend):
    assert how_to_write(OSError(number, "")) == mend


@pytest.mark.parametrize(
    ("number", "mend"),
    [(errno.ENOENT, "Check its name."), (errno.EACCES, "Allow yourself to read it."),
     (errno.EISDIR, "Give a plain file."), (errno.EIO, "Check the disk."),
     (errno.ELOOP, "Its links lead back to themselves: let them end at a file.")],
)  # fmt: skip
def test_a_file_that_does_not_read_is_told_with_what_to_do(number, mend):
    assert how_to_read(OSError(number, "")) == mend
