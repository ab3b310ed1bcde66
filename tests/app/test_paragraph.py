"""What a narrow terminal gets breaks between words; a pipe's rows are as wide as ever."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from app import paragraph as paragraphs
from app.paragraph import cells_of, folded, paragraph
from app.streams import write_lines
from tests.app.terminal import Terminal

ROOT = Path(__file__).parents[2]

TEXT = "one two three four five six seven eight nine ten"


@pytest.fixture
def cells(monkeypatch):
    """Let stdout be a terminal of so many cells; 0 is a pipe."""

    def be(number):
        monkeypatch.setattr(paragraphs, "cells_of", lambda _: number)
        monkeypatch.setattr("app.streams.cells_of", lambda _: number)

    return be


def test_rows_stand_below_each_other_behind_their_head(cells):
    cells(38)
    assert paragraph(TEXT, "ok  memory  ") == [
        "ok  memory  one two three four five",
        "            six seven eight nine ten",
    ]
    assert paragraph("", "ok  memory  ") == ["ok  memory"]


def test_a_head_that_leaves_no_room_stands_alone(cells):
    cells(30)
    assert paragraph(TEXT, "fold states      1  none    ") == [
        "fold states      1  none",
        "    one two three four five",
        "    six seven eight nine ten",
    ]
    assert paragraph("short", "fold states      1  none ") == ["fold states      1  none short"]


def test_a_pipe_gets_a_hundred_columns_or_one_row(cells):
    cells(0)
    assert max(map(len, paragraph("word " * 60))) in range(90, 101)
    assert paragraph("word " * 60, "files  ", widest=None) == ["files  " + ("word " * 60).strip()]


def test_a_wide_terminal_gets_a_hundred_columns_too(cells):
    cells(200)
    assert max(map(len, paragraph("word " * 60))) in range(90, 101)
    assert len(paragraph("word " * 39, widest=None)) == 1


def test_a_row_of_a_table_keeps_its_columns():
    assert folded("  rows      launches        ms", 20) == ["  rows      launches", "      ms"]
    assert folded("  rows", 20) == ["  rows"]
    assert folded("", 20) == [""]
    assert folded("a/path/that/is/longer", 10) == ["a/path/that/is/longer"]


def test_a_stream_that_is_no_terminal_has_no_cells(tmp_path):
    with (tmp_path / "a").open("w") as file:
        assert cells_of(file) == 0
    assert cells_of(file) == 0
    assert cells_of(None) == cells_of(SimpleNamespace()) == 0


def test_lines_to_a_terminal_are_folded_and_those_to_a_pipe_are_not(cells, capfd):
    cells(20)
    write_lines(["rows  launches  ms  best", "", "end"])
    assert capfd.readouterr().out == "rows  launches  ms\n    best\n\nend\n"
    cells(0)
    write_lines(["rows  launches  ms  best"])
    assert capfd.readouterr().out == "rows  launches  ms  best\n"


@pytest.mark.parametrize("command", ["settings", "doctor --explain", "profiles show nvfp4"])
def test_no_row_is_wider_than_the_terminal(qwen38, cells, command):
    cells(79)
    done = qwen38(*command.split())
    rows = done.stdout.decode().splitlines()
    assert done.returncode == 0, done.stderr
    assert len(rows) > 6
    assert [row for row in rows if len(row) > 79 and " " in row.strip()] == []


def test_a_terminal_is_asked_how_wide_it_is(environment):
    command = [sys.executable, "-m", "app", "settings", "draft.router"]
    with Terminal(command, environment, ROOT, columns=60) as terminal:
        seen, code = terminal.exit_code()
    rows = seen.split("<<exit")[0].splitlines()
    assert code == 0
    assert max(map(len, rows)) in range(45, 60)
