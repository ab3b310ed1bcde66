"""A conversation leaves its folder whole, in one step, and never over another one."""

import json
import resource

import pytest

from app.sessions.export import as_json, as_markdown, export_to
from app.sessions.store import SessionError
from tests.app.talks import talk


def test_exports_hold_every_word(store, tmp_path):
    session = store.create("m", "demo", "be brief")
    first = talk(session)
    session.start_answer(first.parent).abort("stopped")
    session.select(first.id)
    text = as_markdown(session)
    assert "## You\n\nWhat is a volcano?" in text
    assert "> let me see" in text
    data = json.loads(as_json(session))
    assert len(data["messages"]) == 3
    assert data["messages"][1]["record"]["token_ids"] == list(first.record.token_ids)
    target = tmp_path / "talk.md"
    export_to(session, target)
    assert target.read_text() == text
    with pytest.raises(SessionError, match="exists already"):
        export_to(session, target)
    with pytest.raises(SessionError, match="cannot be written"):
        export_to(session, tmp_path / "no" / "talk.md")


def test_exports_replace_in_one_step_and_never_a_session(store, tmp_path):
    session = store.create("m", "demo", "")
    talk(session)
    target, link = tmp_path / "talk.md", tmp_path / "link.md"
    target.write_text("the old export")
    link.symlink_to(target)
    with pytest.raises(SessionError, match="--force"):
        export_to(session, target)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5, hard))
    try:
        for path, replaces in ((target, True), (tmp_path / "new.md", False)):
            with pytest.raises(SessionError, match="File too large"):
                export_to(session, path, replace=replaces)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert target.read_text() == "the old export"
    assert {path.name for path in tmp_path.iterdir()} == {"talk.md", "link.md", "sessions"}
    export_to(session, link, replace=True)
    assert link.is_symlink()
    assert target.read_text() == as_markdown(session)
    assert target.stat().st_mode & 0o777 == 0o600
    (tmp_path / "folder.md").mkdir()
    for replaces in (False, True):
        with pytest.raises(SessionError, match="It is no plain file: give another name"):
            export_to(session, tmp_path / "folder.md", replace=replaces)
    kept = session.path.read_bytes()
    (tmp_path / "sneaky.json").symlink_to(session.path)
    for path in (session.path, store.folder / "new.md", tmp_path / "sneaky.json"):
        with pytest.raises(SessionError, match="where the conversations are kept"):
            export_to(session, path, "json", replace=True)
    assert session.path.read_bytes() == kept


def test_an_ending_chooses_the_format_and_others_are_refused(store, tmp_path):
    session = store.create("m", "demo", "")
    talk(session)
    with pytest.raises(SessionError, match=r"End the name in \.md or \.json"):
        export_to(session, tmp_path / "talk.txt")
    assert export_to(session, tmp_path / "talk.JSON").read_text() == as_json(session)
    assert export_to(session, tmp_path / "talk.txt", "markdown").exists()
