"""What is told to be typed works in the shell that it is told in."""

import sys

import pytest

from app.own_command import own_command


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A folder that holds this program, with an interpreter beside it."""
    folder = tmp_path / "my env" / "bin"
    folder.mkdir(parents=True)
    (folder / "qwen38").write_text("#!/bin/sh\n")
    (folder / "qwen38").chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(folder / "python"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "/nowhere")
    return folder


def test_a_name_that_the_shell_finds_is_enough(installed, monkeypatch):
    monkeypatch.setenv("PATH", str(installed))
    assert own_command() == "qwen38"


def test_else_the_way_to_it_is_told_as_a_shell_reads_it(installed, monkeypatch):
    assert own_command() == "'my env/bin/qwen38'"
    monkeypatch.chdir("/")
    assert own_command() == f"'{installed.relative_to('/')}/qwen38'"


def test_another_program_of_that_name_is_not_meant(installed, tmp_path, monkeypatch):
    (tmp_path / "qwen38").write_text("#!/bin/sh\n")
    (tmp_path / "qwen38").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert own_command() == "'my env/bin/qwen38'"


def test_without_an_installed_command_its_name_is_told(installed):
    (installed / "qwen38").unlink()
    assert own_command() == "qwen38"
