"""A conversation is read before its next message comes, which then waits for what is new alone."""

import threading

import pytest

from engine.errors import EngineError, RequestError
from engine.turn.ahead import PLACEHOLDERS, common_beginning
from engine.types import PromptProgressed, Request
from tests.engine.turn.test_conversation import ANSWERS, Talk, said_by, user
from tests.fakes.model import THINKING_TEMPLATE, write_text_files

LONG = "hello there! " * 240


@pytest.fixture
def folder(tmp_path):
    return write_text_files(tmp_path)


def begun(folder, **options):
    """A conversation of one long answer, and another engine that has read nothing of it."""
    first, _ = (talk := Talk(folder, ANSWERS, **options)).ask(user(LONG))
    return talk, (user(LONG), said_by(first)), Talk(folder, ANSWERS, **options)


def read(talk, messages, stop=None, **options):
    request = Request(messages=messages, **options)
    return list(talk.engine.read_ahead(request, stop or threading.Event()))


def test_what_was_read_ahead_is_not_read_again(folder):
    _, messages, other = begun(folder)
    events = read(other, messages)
    steps = [one for one in events if isinstance(one, PromptProgressed)]
    assert len(steps) > 2
    assert [one.num_tokens for one in steps][-1] == steps[-1].num_total
    record, notices = other.ask(*messages, user("more?"))
    assert record.text == "a river"
    assert record.reused_tokens == steps[-1].num_total
    assert record.prompt_tokens - record.reused_tokens < 20
    assert notices == []
    assert [one.end for one in record.ranges[:-1]] == [one.start for one in record.ranges[1:]]


def test_how_much_there_is_to_read_is_told_before_the_first_piece(folder):
    _, messages, other = begun(folder)
    steps = other.engine.read_ahead(Request(messages=messages), threading.Event())
    first = next(steps)
    assert other.model.prefilled == []
    assert (first.num_tokens, first.num_reused, first.tok_s) == (0, 0, 0.0)
    *_, last = steps
    assert first.num_total == last.num_total == last.num_tokens


@pytest.mark.parametrize("template", [None, THINKING_TEMPLATE])
def test_nothing_of_a_message_is_guessed(tmp_path, template):
    folder = write_text_files(tmp_path, template) if template else write_text_files(tmp_path)
    _, messages, other = begun(folder)
    steps = read(other, messages)
    held = other.engine._memory.ids
    for text in ("more?", "Go", "a", "1 + 1", "<|im_end|>", "\n x"):
        prompt = other.engine.prompt_ids((*messages, user(text)))
        assert list(prompt[: len(held)]) == held
    assert steps[-1].num_tokens == len(held)


def test_placeholders_begin_with_nothing_in_common():
    assert len({one[0] for one in PLACEHOLDERS}) == len(PLACEHOLDERS)
    assert common_beginning([(1, 2, 3), (1, 2), (1, 2, 4)]) == (1, 2)
    assert common_beginning([(1,), (2,)]) == ()


def test_stopped_it_keeps_what_was_read_and_the_message_goes_on_behind_it(folder):
    _, messages, other = begun(folder)
    stop = threading.Event()
    steps = other.engine.read_ahead(Request(messages=messages), stop)
    _, first = next(steps), next(steps)
    stop.set()
    assert list(steps) == []
    assert first.num_tokens == other.model.chunk_tokens
    record, _ = other.ask(*messages, user("more?"))
    assert (record.text, record.reused_tokens) == ("a river", first.num_tokens)
    # the cuts of one that was read at once
    assert other.model.prefilled[1][0] == first.num_tokens


def test_a_device_that_fails_is_a_sentence_and_the_message_reads_anew(folder):
    _, messages, other = begun(folder)
    other.model.fails_at = 300
    with pytest.raises(EngineError, match="device was lost.*The conversation is kept"):
        read(other, messages)
    other.model.fails_at = None
    record, _ = other.ask(*messages, user("more?"))
    assert (record.text, record.reused_tokens) == ("a river", 0)


def test_of_a_conversation_that_is_held_only_the_next_opening_is_read(folder):
    talk, messages, _ = begun(folder)
    num_held, num_read = len(talk.engine._memory.ids), len(talk.model.prefilled)
    read(talk, messages)
    ((start, end),) = talk.model.prefilled[num_read:]
    assert (start, end - start < 10) == (num_held, True)
    record, notices = talk.ask(*messages, user("more?"))
    assert (record.text, notices) == ("a river", [])


def test_one_that_does_not_fit_is_refused_and_nothing_changes(folder):
    _, messages, _ = begun(folder)
    small = Talk(folder, ANSWERS, max_context_tokens=64)
    with pytest.raises(RequestError, match="the context 64"):
        read(small, messages)
    assert small.ask(user("hello"))[0].text == " ice. \n"


def test_two_at_once_are_refused_and_so_is_a_closed_engine(folder):
    _, messages, other = begun(folder)
    steps = other.engine.read_ahead(Request(messages=messages), threading.Event())
    next(steps)
    with pytest.raises(RequestError, match="still answering"):
        read(other, messages)
    steps.close()
    other.engine.close()
    with pytest.raises(RequestError, match="closed"):
        read(other, messages)
