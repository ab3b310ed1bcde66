"""A fault that is planted in device code is told as seen or as missed, and misses are counted.

What is planted is a program, and the fault that it says it is.
"""

from pathlib import Path

import pytest

from kernels.common import nvrtc
from tests.kernels.device_faults import can_be_planted, planted, try_all

FAULTS = [
    ("nothing changed", "x = 1;", "x = 1;", None),
    ("a seen one", "x = 1;", "x = 2;", "a law"),
    ("a missed one", "y = 1;", "y = 2;", "a law"),
]


@pytest.fixture
def source(tmp_path, monkeypatch) -> Path:
    monkeypatch.setattr(nvrtc, "keep_in", lambda _folder: None)
    path = tmp_path / "kernel.cu"
    path.write_text("x = 1; y = 1;\n")
    return path


def test_what_nobody_sees_is_counted(source, capsys):
    compiled, running = [], []

    def broken(wanted):
        return ["a law"] if "x = 2" in running[-1] else []

    assert try_all(FAULTS, source, compiled.extend, running.append, broken) == 1
    assert compiled == running
    assert capsys.readouterr().out.splitlines() == [
        "seen nothing changed: ", "seen a seen one: a law", "MISSED a missed one: ",
    ]  # fmt: skip


def test_what_is_red_without_a_fault_is_a_miss(source):
    assert try_all(FAULTS[:1], source, list, list, lambda _wanted: ["a law"]) == 1


@pytest.mark.parametrize(("text", "places"), [("z = 1;", 0), (" = 1;", 2)])
def test_a_fault_needs_one_place(source, text, places):
    with pytest.raises(AssertionError, match=f"{places} places to plant it in, expected one"):
        planted(source, text, "z = 2;")


LOOP = """extern "C" __global__ void k(int* to) {
  for (int i = 0; i < NUM; ++i) to[i] = 0;
  int after = to[0];
  to[1] = after;
}
"""


@pytest.fixture
def loop(tmp_path) -> Path:
    path = tmp_path / "loop.cu"
    path.write_text(LOOP)
    return path


def test_what_is_planted_is_a_program(loop):
    assert can_be_planted(loop, ("no zeros", "to[i] = 0;", ";", "a law"), {"NUM": 2})
    with pytest.raises(AssertionError, match='no name: .*identifier "nobody" is undefined'):
        can_be_planted(loop, ("no name", "to[0]", "nobody", "a law"), {"NUM": 2})
    with pytest.raises(AssertionError, match='no size: .*identifier "NUM" is undefined'):
        can_be_planted(loop, ("no size", "to[0]", "to[2]", "a law"), {})


def test_a_statement_that_is_taken_out_does_not_give_its_loop_the_next_one(loop):
    with pytest.raises(AssertionError, match="a statement taken out leaves none"):
        planted(loop, "to[i] = 0;", "")
