"""A conversation is on disk before it counts, and no disk or second window loses it."""

import json
import resource
from pathlib import Path

import pytest

from app.sessions import answer as answer_module
from app.sessions.entries import ROOT
from app.sessions.logfile import LogFile
from app.sessions.store import SessionError, SessionStore
from engine.types import Message
from tests.app.talks import a_record, talk, words


def recorded(prompt_ids):
    return a_record(prompt_ids=prompt_ids, prompt_tokens=len(prompt_ids))


def test_ids_of_prompts_are_kept_once_and_read_back_on_every_branch(store):
    session = store.create("m", "demo", "")
    begin = tuple(range(100, 400))
    first = talk(session, "a", recorded(begin))
    before = (*begin, *first.record.token_ids)
    second = talk(session, "b", recorded((*before, 1, 2)))
    session.select(first.id)
    other = talk(session, "c", recorded((*before[:302], 9)))  # another text of the same beginning
    session.close()
    again = store.open(session.id)
    for one in (first, second, other):
        assert again.messages[one.id].record.prompt_ids == one.record.prompt_ids
    lines = [line for line in session.path.read_text().splitlines() if '"more"' in line]
    kept = [json.loads(line)["record"]["prompt_ids"] for line in lines]
    assert [(one["before"], len(one["more"])) for one in kept] == [
        (0, 300),
        (len(before), 2),
        (302, 1),
    ]
    assert again.request_messages()[-1].record.prompt_ids == other.record.prompt_ids


def test_ids_whose_beginning_was_lost_are_not_made_up(store):
    session = store.create("m", "demo", "")
    first = talk(session, "a", recorded(tuple(range(50))))
    second = talk(session, "b", recorded((*range(50), *first.record.token_ids, 7)))
    session.close()
    lines = session.path.read_text().splitlines(keepends=True)
    damaged = [line for line in lines if not ('"end"' in line and first.id in line)]
    session.path.write_text("".join(damaged))
    record = store.open(session.id).messages[second.id].record
    assert (record.prompt_ids, record.token_ids) == ((), second.record.token_ids)


def test_nothing_is_on_disk_before_the_first_message(store):
    session = store.create("m", "demo", "be brief")
    session.set_system("be kind")
    assert not store.folder.exists()
    session.add_message("user", "hello")
    session.close()
    assert store.open(session.id).system == "be kind"


def test_a_conversation_comes_back_as_it_was(store):
    session = store.create("m", "demo", "be brief")
    talk(session)
    session.close()
    again = store.open(session.id[:12])
    assert words(again) == words(session)
    assert again.request_messages()[0] == Message("system", "be brief")
    before, after = session.path_messages()[1].record, again.path_messages()[1].record
    assert [one.token_ids for one in after.rounds] == [one.token_ids for one in before.rounds]
    assert after.rounds[0].ms == before.rounds[0].ms
    assert after.ranges == before.ranges
    assert after.decode_tok_s == pytest.approx(before.decode_tok_s)
    assert again.warnings == []


def test_the_file_is_private_and_the_answer_is_there_when_finish_returns(store):
    session = store.create("m", "demo", "")
    talk(session)
    assert session.path.stat().st_mode & 0o077 == 0
    last = json.loads(session.path.read_bytes().splitlines()[-1])
    assert last["type"] == "end"
    assert last["content"].startswith("A volcano is")


def test_branches_are_siblings_and_one_of_them_is_current(store):
    session = store.create("m", "demo", "")
    first = talk(session)
    second = session.start_answer(first.parent).abort("you stopped it")
    assert [one.id for one in session.tree().siblings(first.id)] == [first.id, second.id]
    assert session.path_messages()[-1].id == second.id
    session.select(first.id)
    other = session.add_message("user", "another beginning", parent=ROOT)
    assert session.path_messages() == [other]
    session.select(session.tree().newest_leaf(first.id))
    session.close()
    assert store.open(session.id).path_messages()[-1].id == first.id


def test_parts_of_a_growing_answer_survive_a_crash(store, monkeypatch):
    monkeypatch.setattr(answer_module, "PART_SECONDS", 0.0)
    session = store.create("m", "demo", "")
    session.add_message("user", "hello")
    writer = session.start_answer()
    writer.append("thinking", "hm ")
    writer.append("answer", "A volc")
    session.close()  # and the process dies here
    again = store.open(session.id)
    answer = again.path_messages()[-1]
    assert (answer.content, answer.reasoning, answer.state) == ("A volc", "hm ", "stopped")
    assert "cut off" in again.warnings[0]


def test_the_second_window_goes_on_in_a_copy(store):
    first = store.create("m", "demo", "be brief")
    answer = talk(first)
    second = store.open(first.id)
    assert "another window" in second.warnings[0]
    second.add_message("user", "from the second")
    talk(first, "from the first")
    first.close()
    second.close()
    assert second.id != first.id
    assert [one.content for one in store.open(second.id).path_messages()] == [
        "What is a volcano?",
        answer.content,
        "from the second",
    ]
    assert store.open(second.id).path_messages()[1].record is not None
    assert len(store.open(first.id).path_messages()) == 4


def test_a_full_disk_loses_nothing(store):
    session = store.create("m", "demo", "")
    session.add_message("user", "before")
    size = session.path.stat().st_size
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 50, hard))
    try:
        answer = talk(session, "while full")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert len(session.warnings) == 1
    assert "not on disk" in session.warnings[0]
    assert not session.is_saved
    assert session.path.stat().st_size == size
    assert session.path_messages()[-1] == answer
    session.add_message("user", "after")
    assert session.is_saved
    assert "on disk again" in session.warnings[1]
    session.close()
    assert [one.content for one in store.open(session.id).path_messages()] == [
        one.content for one in session.path_messages()
    ]


def test_a_device_that_is_always_full_is_a_problem_not_an_exception():
    log = LogFile(Path("/dev/full"))
    assert isinstance(log.append({"type": "message"}), OSError)
    assert log.num_waiting == 1
    log.close()


def test_an_unwritable_folder_keeps_the_conversation_in_memory(tmp_path):
    (tmp_path / "file").write_text("")
    store = SessionStore(tmp_path / "file" / "sessions")
    session = store.create("m", "demo", "")
    talk(session)
    session.draft = "typed"
    assert len(session.path_messages()) == 2
    assert len(session.warnings) == 1
    assert not session.is_saved
    assert session.disk_problem == "Not a directory"
    with pytest.raises(SessionError, match="cannot be read: Not a directory"):
        store.list()


def test_sessions_that_are_not_kept_touch_no_disk(tmp_path):
    session = SessionStore(tmp_path / "none", keep=False).create("m", "demo", "")
    talk(session)
    assert session.is_saved
    assert not (tmp_path / "none").exists()


def test_the_list_is_newest_first_with_titles(store):
    old = store.create("m", "demo", "")
    talk(old, "old \x1b[2J question")
    new = store.create("m", "demo", "")
    talk(new, "new\nquestion")
    new.rename("my title")
    listed = store.list()
    assert [one.title for one in listed] == ["my title", "old ␛[2J question"]
    assert listed[0].num_messages == 2
    assert store.latest() == listed[0]


@pytest.mark.parametrize("where", ["in the list", "while open"])
def test_a_renamed_conversation_is_as_old_as_before(store, monkeypatch, where):
    old, new = (store.create("m", "demo", "") for _ in range(2))
    talk(old, "old question")
    talk(new, "new question")
    before = {one.id: one.updated for one in store.list()}
    monkeypatch.setattr("app.sessions.session.now", lambda: "2030-01-01T00:00:00.000+00:00")
    if where == "in the list":
        old.close()
        store.rename(old.id, "a better name")
    else:
        old.rename("a better name")
        assert old.updated == before[old.id]
    assert [one.title for one in store.list()] == ["new question", "a better name"]
    assert {one.id: one.updated for one in store.list()} == before


def test_delete_refuses_what_is_open_and_what_is_not_there(store):
    session = store.create("m", "demo", "")
    talk(session)
    with pytest.raises(SessionError, match="open in another window"):
        store.delete([session.id])
    session.close()
    assert store.delete([session.id]) == [session.id]
    with pytest.raises(SessionError, match="no session"):
        store.delete([session.id])


def test_delete_removes_nothing_while_one_of_them_is_open(store):
    closed, opened = store.create("m", "demo", ""), store.create("m", "demo", "")
    talk(closed)
    talk(opened)
    closed.close()
    with pytest.raises(SessionError, match="open in another window"):
        store.delete([closed.id, opened.id])
    assert len(store.list()) == 2


def test_a_file_whose_first_write_failed_is_removed(store):
    session = store.create("m", "demo", "")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        talk(session)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert session.disk_problem == "File too large"
    session.close()
    assert not session.path.exists()


def test_a_megabyte_of_paste_is_kept_to_the_last_byte(store):
    session = store.create("m", "demo", "")
    paste = "".join(chr(32 + index % 90) + "\n" * (index % 80 == 0) for index in range(1_000_000))
    session.add_message("user", paste)
    session.close()
    assert store.open(session.id).path_messages()[0].content == paste
