"""What `qwen38 doctor` says of the terminal it stands in, for a report."""

import sys

import pytest

from tests.app.conftest import ROOT
from tests.app.terminal import Terminal

DOCTOR = [sys.executable, "-m", "app", "doctor"]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("\x1b[?0u\x1b[?62;4c", "tells Ctrl+Enter and Shift+Enter from Enter"),
        ("\x1b[?62;4c", "tells Ctrl+Enter from Enter not"),
        ("", "does not say how it tells keys"),
    ],
)
def test_doctor_asks_the_terminal_how_it_tells_keys(environment, answer, said):
    named = {"TERM_PROGRAM": "Stand", "TERM_PROGRAM_VERSION": "1.2", "COLORTERM": "truecolor"}
    with Terminal(DOCTOR, {**environment, **named}, ROOT, columns=200) as terminal:
        terminal.wait_for(r"\x1b\[\?u\x1b\[c")
        if answer:
            terminal.type(answer)
        seen = " ".join(terminal.wait_for(r"<<exit \d+>>").split())
        assert terminal.is_as_before()
    assert "drawn by Stand 1.2" in seen
    assert "24-bit colour" in seen
    assert "copies by OSC 52" in seen
    assert said in seen
    assert "62;4c" not in seen.rpartition("terminal")[2]
