"""What the records say of single tokens: the characters that each brought, and what was drafted."""

import pytest

from engine.types import Message, Request, RoundEnded, Sampling
from tests.fakes.model import FakeModel, local_engine, run


def counting(context) -> int:
    """Each token is one more than the last, also over bytes that are half a character."""
    return 33 + (context[-1] - 32) % 220


def record_of(folder, **options):
    options = {"sampling": Sampling(temperature=0.0), "max_tokens": 200, **options}
    engine = local_engine(FakeModel(counting), folder)
    return run(engine, Request(**options))[-1].record


@pytest.mark.parametrize("drafter", ["off", "half", "wrong", "lookup"])
@pytest.mark.parametrize("stop", [(), ("xyz",)])
def test_characters_of_tokens_add_up_to_the_text(folder, drafter, stop):
    record = record_of(folder, prompt_ids=(40,), drafter=drafter, stop=stop)
    assert len(record.token_chars) == len(record.token_ids)
    assert sum(record.token_chars) == len(record.reasoning) + len(record.text)
    assert record.text


def test_drafts_are_told_with_what_came_of_them(folder):
    record = record_of(folder, prompt_ids=(40,), drafter="half", num_draft_tokens=3)
    for one in record.rounds:
        assert len(one.draft_ids) == one.rows - 1
        assert one.draft_ids[: one.accepted] == one.token_ids[: one.accepted]
        assert one.draft_parents == ()
        if one.tested > one.accepted and len(one.token_ids) > one.accepted:
            assert one.draft_ids[one.accepted] != one.token_ids[one.accepted]


def test_ids_are_spelled_by_the_engine(folder):
    engine = local_engine(FakeModel(counting), folder)
    ids = run(engine, Request(messages=(Message("user", "hello"),), max_tokens=5))[-1].record
    assert "".join(engine.token_texts(ids.token_ids)) == ids.text
    engine.close()
    assert engine.token_texts((0,))


@pytest.mark.parametrize("drafter", ["off", "half", "wrong", "lookup"])
def test_rounds_tell_the_characters_of_their_tokens_while_they_come(folder, drafter):
    engine = local_engine(FakeModel(counting), folder)
    request = Request(
        prompt_ids=(40,), drafter=drafter, max_tokens=60, sampling=Sampling(temperature=0.0)
    )
    events = run(engine, request)
    told = [one.token_chars for one in events if isinstance(one, RoundEnded)]
    record = events[-1].record
    assert [len(one) for one in told] == [
        len(one.token_ids) + (at == 0) for at, one in enumerate(record.rounds)
    ]
    told = [count for one in told for count in one]
    assert told[:-1] == list(record.token_chars[:-1])  # the last one may get what was held back
    assert told[-1] <= record.token_chars[-1]


def test_a_text_has_as_many_tokens_as_a_prompt_of_it(folder):
    engine = local_engine(FakeModel(counting), folder)
    empty = engine.count_tokens((Message("user", ""),))
    for text in ("hello", "two words\n\nand lines", "<|im_end|>", "größer 漢字"):
        assert engine.text_tokens(text) == engine.count_tokens((Message("user", text),)) - empty
