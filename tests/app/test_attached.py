"""Files in a message: which names count, what goes along, and what is refused."""

import os

import pytest

from app.attached import as_words, attach, names_in, read_file, read_typed, typed_message
from app.sessions.entries import FileSpan, MessageEntry
from app.sessions.store import SessionStore
from engine.errors import RequestError


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A working folder with a few files."""
    monkeypatch.chdir(tmp_path)
    for name, text in (
        ("notes.txt", "one\ntwo\n"), ("my file.md", "# hi"), ("a.py", "x = 1"), ("ab.py", "y = 2"),
    ):  # fmt: skip
        (tmp_path / name).write_text(text)
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "main.c").write_text("int x;")
    return tmp_path


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("see @notes.txt", ["notes.txt"]),
        ("@notes.txt, and (@a.py) @notes.txt.", ["notes.txt"]),
        ('look at @"my file.md": fine?', ["my file.md"]),
        ("@src/main.c\n@./a.py", ["src/main.c", "./a.py"]),
        ("me@notes.txt @nobody @dataclass @src @src/", []),
        (r"\@notes.txt", []),
        ("@./missing.txt", ["./missing.txt"]),
        ('@ @@ @" @\0', []),
    ],
)
def test_only_the_name_of_a_file_counts(text, names):
    assert names_in(text) == names


def test_a_file_stands_below_the_message_and_its_place_is_known():
    sent = attach("compare @notes.txt with @a.py  ")
    assert sent.content == (
        'compare @notes.txt with @a.py\n\n<file name="notes.txt">\none\ntwo\n</file>\n\n'
        '<file name="a.py">\nx = 1\n</file>'
    )
    assert [sent.content[one.start : one.end].split("\n")[0] for one in sent.files] == [
        '<file name="notes.txt">', '<file name="a.py">',
    ]  # fmt: skip
    assert attach("no file  ").content == "no file  "


@pytest.mark.parametrize(
    "text",
    ["see @notes.txt", r"\@notes.txt is no file, @a.py is one", "@nobody", "/etc @./a.py"],
)
def test_what_was_typed_is_had_again(text):
    sent = attach(text)
    entry = MessageEntry("x", "", "user", sent.content, files=sent.files)
    assert typed_message(entry) == (f"/{text}" if text.startswith("/") else text)


def test_words_stay_words():
    text = "a paste with @notes.txt and @nobody"
    kept = as_words(text)
    assert kept == r"a paste with \@notes.txt and @nobody"
    assert attach(kept).content == text
    assert as_words(kept) == kept


def test_the_session_keeps_what_was_sent(folder):
    store = SessionStore(folder / "sessions")
    session = store.create("m", "demo", "")
    sent = attach("see @notes.txt")
    session.add_message("user", sent.content, files=sent.files)
    (folder / "notes.txt").write_text("something else")
    entry = store.open(session.id, write=False).path_messages()[0]
    assert entry.files == sent.files
    assert "one\ntwo" in entry.content
    assert typed_message(entry) == "see @notes.txt"
    assert session.title == "see @notes.txt"


@pytest.mark.parametrize("files", [[["x", 0, 9999]], [["x", 5, 2]], [["x", 3, 4], ["y", 1, 2]]])
def test_places_that_cannot_be_are_no_files(folder, files):
    import json

    session = SessionStore(folder / "sessions").create("m", "demo", "")
    session.add_message("user", "plain words", files=tuple(FileSpan(*one) for one in files))
    lines = [json.loads(line) for line in session.path.read_text().splitlines()]
    assert lines[-1]["files"] == files
    session.close()
    entry = SessionStore(folder / "sessions").open(session.id, write=False).path_messages()[0]
    assert (entry.content, entry.files) == ("plain words", ())


def refusal(name):
    with pytest.raises(RequestError) as told:
        read_file(name)
    return str(told.value)


def test_what_cannot_be_sent_is_refused_in_a_sentence(folder, monkeypatch):
    (folder / "binary").write_bytes(b"\x00\x01")
    (folder / "latin").write_bytes("größer".encode("latin-1"))
    (folder / "empty").write_text("\n \n")
    os.mkfifo(folder / "pipe")
    monkeypatch.setattr("app.attached.MAX_BYTES", 5)
    assert "There is no file nothing." in refusal("nothing")
    assert "src is no plain file." in refusal("src")
    assert "pipe is no plain file." in refusal("pipe")
    assert "binary is no text" in refusal("binary")
    assert "is larger than" in refusal("latin")
    assert "empty is empty." in refusal("empty")
    assert "There is no file" in refusal("a\0b")
    monkeypatch.setattr("app.attached.MAX_BYTES", 50)
    assert "latin is no text" in refusal("latin")


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_without_permission_is_refused(folder):
    (folder / "a.py").chmod(0)
    assert "a.py does not read: Permission denied." in refusal("a.py")


@pytest.mark.parametrize("typed", ["my file.md", '"my file.md"', "'my file.md'", '@"my file.md"'])
def test_a_command_takes_a_name_however_it_is_quoted(typed):
    assert read_typed(typed).name == "my file.md"


def test_a_name_that_holds_quotes_is_that_name(folder):
    (folder / "'q'").write_text("quoted")
    (folder / "@at").write_text("at")
    assert read_typed("'q'").text == "quoted"
    assert read_typed("@at").text == "at"


def test_how_to_send_a_word_is_told_where_there_is_a_message():
    with pytest.raises(RequestError, match=r"no file ./gone.*\\@ sends a name as a word"):
        attach("see @./gone")
    with pytest.raises(RequestError) as found:
        read_typed("gone")
    assert "@" not in str(found.value)
    with pytest.raises(RequestError, match="name of the file is empty"):
        read_file(" ")
