"""What ``/retry`` means, and what is kept of how an answer was made."""

import pytest

from app.live import OF_THAT_ANSWER, LiveSettings
from app.retry import retry_meant, values_of
from app.sessions.store import SessionStore
from engine.errors import RequestError, SettingsError
from engine.settings.load import load_settings
from tests.app.records import a_round, a_turn


@pytest.fixture
def live(tmp_path):
    _, sources = load_settings({"paths.config": str(tmp_path), "sampling.top_k": 40})
    return LiveSettings.of(sources)


@pytest.fixture
def talked(tmp_path, live):
    """A conversation of two answers that were made in different ways."""
    session = SessionStore(tmp_path / "data").create("m", "demo", "")
    for text, temperature in (("one", "0.1"), ("two", "0.9")):
        live.set("temperature", temperature)
        session.add_message("user", text)
        session.start_answer(made_with=live.in_force()).finish(a_turn([a_round()], text="fine"))
    return session


def test_what_is_in_force_is_all_that_is_not_as_declared(live):
    assert live.in_force() == {"sampling.top_k": "40"}
    live.set("thinking", "off")
    assert live.in_force() == {"sampling.top_k": "40", "chat.thinking": "off"}


def test_an_answer_is_made_again_with_its_own_values_and_its_seed(talked, live):
    wanted = retry_meant(talked, live, "2")
    sampling = wanted.live.settings.sampling
    assert (wanted.prompt.content, wanted.is_told, wanted.refused) == ("one", False, [])
    assert (sampling.temperature, sampling.top_k, sampling.seed) == (0.1, 40, 1)
    assert wanted.live.resolved["sampling.temperature"].source == OF_THAT_ANSWER
    assert retry_meant(talked, live, "").live.settings.sampling.temperature == 0.9


def test_values_that_are_named_win_and_change_nothing_else(talked, live):
    wanted = retry_meant(talked, live, "2 temperature=0.4 chat.thinking=off")
    assert wanted.is_told
    assert wanted.live.settings.sampling.temperature == 0.4
    assert not wanted.live.settings.chat.thinking
    assert live.settings.sampling.temperature == 0.9
    wanted.live.reset("temperature")
    assert wanted.live.settings.sampling.temperature == 0.1


@pytest.mark.parametrize(
    ("argument", "kind", "words"),
    [
        ("theme=light", RequestError, "'theme=light' is no value that an answer is made with."),
        ("1 hot", RequestError, "'hot' is no value"),
        ("temperature=11", SettingsError, "expected 0 to 10"),
        ("temprature=1", SettingsError, "temperature"),
        ("9", RequestError, "There is no message 9"),
    ],
)
def test_what_cannot_be_meant_is_said(talked, live, argument, kind, words):
    with pytest.raises(kind) as told:
        retry_meant(talked, live, argument)
    assert words in str(told.value)


def test_what_an_answer_was_made_with_is_on_disk(talked, live):
    store = SessionStore(talked.path.parent)
    again = store.open(talked.id, write=False)
    for entry in (*talked.path_messages(),):
        assert again.messages[entry.id].made_with == entry.made_with
    first = again.path_messages()[0]
    assert values_of(again, first, live) == {
        "sampling.temperature": "0.1", "sampling.top_k": "40", "sampling.seed": "1",
    }  # fmt: skip


def test_a_value_of_another_version_is_told_and_left_at_its_default(live):
    like, refused = live.like({"sampling.temperature": "hot", "sampling.gone": "1"})
    assert like.settings.sampling.temperature is None
    assert len(refused) == 1
    assert "'sampling.temperature'" in refused[0]


def test_what_is_wrong_is_told_of_the_command_that_was_typed(talked, live):
    with pytest.raises(SettingsError, match="^/retry: 'sampling.temperature' is 'x'"):
        retry_meant(talked, live, "temperature=x")
    with pytest.raises(SettingsError, match="no setting 'foo'.*'qwen38 settings' lists all"):
        retry_meant(talked, live, "foo=1")
    for number in ("-1", "\u0661"):
        with pytest.raises(RequestError, match=f"^'{number}' is no number of a message"):
            retry_meant(talked, live, number)
    with pytest.raises(RequestError, match="^'9999"):  # Python reads no number of so many digits
        retry_meant(talked, live, "9" * 5000)
