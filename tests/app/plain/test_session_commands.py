"""Going to another conversation in the plain chat, and what is said of those that do not read."""

from app.plain.chat import talk
from tests.app.plain.test_plain import ListReader, state  # noqa: F401  (a fixture)


def test_the_beginning_of_several_ids_is_not_taken_for_the_conversation_at_hand(
    state,  # noqa: F811
    capfd,
):
    now = state()
    talk(now, ListReader("hello", "/new", "again"))
    here = now.session.id
    other = next(one.id for one in now.store.list() if one.id != here)
    enough = next(here[:n] for n in range(1, len(here) + 1) if not other.startswith(here[:n]))
    capfd.readouterr()
    talk(now, ListReader("/resume 2", f"/resume {here}", f"/resume {enough}"))
    said = capfd.readouterr().err
    assert "'2' fits 2 sessions" in said
    assert said.count("You are in that conversation.") == 2
    assert now.session.id == here
    talk(now, ListReader(f"/resume {other}"))
    assert now.session.id == other


def test_where_nothing_reads_it_is_not_said_that_there_is_nothing(state, capfd, tmp_path):  # noqa: F811
    now = state()
    (tmp_path / "sessions").mkdir()
    (tmp_path / "sessions" / "20261201-000000-abcd.jsonl").write_text("no session\n")
    talk(now, ListReader("/sessions"))
    said = capfd.readouterr().err
    assert "1 file in" in said
    assert "There are no conversations" not in said
