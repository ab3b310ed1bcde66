"""Completing the name of a file behind ``@``."""

import pytest

from app.attached import attach, mention_of
from app.file_names import completion_at
from engine.errors import RequestError
from tests.app.tui.hostile import FORBIDDEN, HOSTILE


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A working folder with a few files."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "src").mkdir()
    for name in ("notes.txt", "my file.md", "a.py", "ab.py", "src/main.c"):
        (tmp_path / name).write_text("x")
    return tmp_path


@pytest.mark.parametrize(
    ("before", "names", "longest"),
    [
        ("see @no", ["notes.txt"], "@notes.txt"),
        ("@a", ["a.py", "ab.py"], ""),
        ("@my", ["my file.md"], '@"my file.md"'),
        ('@"my fi', ["my file.md"], '@"my file.md"'),
        ("@s", ["src/"], "@src/"),
        ("@src/", ["src/main.c"], "@src/main.c"),
        ("@notes.txt", ["notes.txt"], ""),
    ],
)
def test_names_are_completed_as_far_as_they_agree(before, names, longest):
    found = completion_at(before)
    assert (found.names, found.longest) == (names, longest)


@pytest.mark.parametrize("before", ["", "@zzz", "me@no", "@notes.txt and", "@nowhere/x", "@\0"])
def test_where_no_file_is_named_nothing_is_completed(before):
    assert completion_at(before) is None


def test_names_that_cannot_be_typed_are_not_offered(folder):
    for at, text in enumerate(HOSTILE):
        name = f"z{at}{text[:40]}".replace("/", "").replace("\0", "")
        try:
            (folder / name).write_text("x")
        except (OSError, ValueError):
            continue
    found = completion_at("@z")
    assert found is not None
    assert not FORBIDDEN & set("".join(found.names))
    for name in found.names:
        assert attach(f"see {mention_of(name)}").files[0].name == name
    with pytest.raises(RequestError, match="cannot name"):
        mention_of("a\x1b[2J")
