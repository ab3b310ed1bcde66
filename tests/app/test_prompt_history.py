"""What was typed comes back, in every window, and no file is waited for."""

import errno
import os
import subprocess
import sys
from pathlib import Path

from app import appended
from app.sessions import history as history_module
from app.sessions.history import PromptHistory
from tests.app.talks import talk

ROOT_FOLDER = Path(__file__).parents[2]


def test_the_draft_outlives_the_program(store):
    session = store.create("m", "demo", "")
    session.draft = "not sent ye\ud800t"
    assert store.create("m", "demo", "").draft.startswith("not sent ye")
    session.add_message("user", "sent")
    session.draft = ""
    assert store.create("m", "demo", "").draft == ""
    session.draft = "the next one"
    session.close()
    assert store.open(session.id).draft == "the next one"


def test_an_empty_box_of_a_new_conversation_leaves_the_draft_of_another_window(store):
    other = store.create("m", "demo", "")
    other.draft = "not sent in the other window"
    store.create("m", "demo", "").draft = ""
    assert store.create("m", "demo", "").draft == "not sent in the other window"
    other.draft = ""
    assert store.create("m", "demo", "").draft == ""


def test_what_was_sent_is_no_draft_any_more_and_that_of_another_window_stays(store):
    session = store.create("m", "demo", "")
    session.draft = "the first message"
    session.add_message("user", "the first message")
    session.draft = "typed behind it at once"
    assert store.create("m", "demo", "").draft == ""
    other = store.create("m", "demo", "")
    other.draft = "not sent in the other window"
    session.draft = ""
    assert store.create("m", "demo", "").draft == "not sent in the other window"


def test_history_is_shared_and_what_begins_with_a_space_ends_with_the_program(tmp_path):
    path = tmp_path / "state" / "history.jsonl"
    one, two = PromptHistory(path), PromptHistory(path)
    one.add("first\nline two")
    one.add(" a secret")
    one.add("first\nline two")
    two.add("second")
    with path.open("ab") as file:
        file.write(b"torn")
    assert one.entries() == ["first\nline two", " a secret", "first\nline two"]
    assert PromptHistory(path).entries() == ["first\nline two", "second"]
    assert PromptHistory(Path("/proc/none/history")).add("x") is not None


def test_a_prompt_behind_a_torn_line_and_one_that_the_disk_cut_cost_no_other(tmp_path, monkeypatch):
    path = tmp_path / "history.jsonl"
    path.write_bytes(b'{"text":"first"}\n{"text":"to')
    PromptHistory(path).add("second")

    def cut(fd, data):
        os.write(fd, data[: len(data) // 2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as full:
        full.setattr(appended, "write_all", cut)
        assert PromptHistory(path).add("third") is not None
    PromptHistory(path).add("fourth")
    assert PromptHistory(path).entries() == ["first", "second", "fourth"]
    assert path.read_bytes().count(b"\n") == 4


def test_no_file_of_ours_is_waited_for_when_it_is_a_pipe(store, tmp_path):
    session = store.create("m", "demo", "")
    talk(session)
    session.draft = "typed"
    draft = next((store.folder / "drafts").iterdir())
    draft.unlink()
    os.mkfifo(draft)
    assert session.draft == ""
    os.mkfifo(tmp_path / "history.jsonl")
    history = PromptHistory(tmp_path / "history.jsonl")
    assert isinstance(history.add("kept until the end"), OSError)
    assert history.entries() == ["kept until the end"]


def test_of_a_long_history_the_end_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(history_module, "MAX_BYTES", 40)
    for number in range(9):
        PromptHistory(tmp_path / "history.jsonl").add(f"prompt {number}")
    assert PromptHistory(tmp_path / "history.jsonl").entries() == ["prompt 7", "prompt 8"]


def test_two_processes_append_whole_entries(tmp_path):
    program = (
        "import sys; from pathlib import Path; from app.sessions.history import PromptHistory\n"
        "h = PromptHistory(Path(sys.argv[1]))\n"
        "for i in range(50): h.add(sys.argv[2] * 1000 + str(i))"
    )
    path = tmp_path / "history.jsonl"
    children = [
        subprocess.Popen([sys.executable, "-c", program, path, name], cwd=ROOT_FOLDER)
        for name in "ab"
    ]
    assert [child.wait() for child in children] == [0, 0]
    assert len(PromptHistory(path).entries()) == 100
