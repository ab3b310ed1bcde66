"""A file that cannot be written is refused before the work that fills it."""

import re

import pytest

from app.output_file import check_output, new_name
from engine.errors import OutputError, RequestError


def test_new_and_existing_files_in_a_folder_will_do(tmp_path):
    check_output("--json", tmp_path / "new")
    (tmp_path / "old.json").touch()
    check_output("--json", tmp_path / "old.json", ".json")


def test_a_file_that_was_not_named_has_the_time_in_its_name():
    assert re.fullmatch(r"qwen38-\d{8}-\d{6}\.md", new_name("qwen38", ".md"))


def test_names_that_are_no_files(tmp_path):
    for path in (tmp_path / "none" / "x", tmp_path, "/dev/null"):
        with pytest.raises(RequestError, match="--json is"):
            check_output("--json", tmp_path / path)
    with pytest.raises(RequestError, match="ends in .json"):
        check_output("--json", tmp_path / "x.txt", ".json")


def test_a_guarded_folder(tmp_path, monkeypatch):
    monkeypatch.setattr("os.access", lambda path, mode: False)  # root may write everywhere
    with pytest.raises(OutputError, match="x cannot be written: Permission denied"):
        check_output("--json", tmp_path / "x")


def test_a_name_with_the_time_in_it_is_free(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = []
    for _ in range(3):
        names.append(new_name("trace", ".json.gz"))
        (tmp_path / names[-1]).touch()
    assert len(set(names)) == 3
    assert all(re.fullmatch(r"trace-\d{8}-\d{6}(-\d)?\.json\.gz", one) for one in names)
