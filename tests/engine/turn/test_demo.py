"""The embedded demo, opened as a person opens it: it drafts, and drafting changes no bit."""

import threading
from dataclasses import replace

import pytest
import torch

from engine.draft.price_table import shipped_prices
from engine.draft.prices import Prices
from engine.draft.routed import Routing
from engine.locate import Choice
from engine.open import open_engine
from engine.profile import Drafting, get_profile, load_profiles, profile_folder
from engine.settings.declared import ModelSettings, Settings
from engine.turn.local import LocalEngine
from engine.types import Message, NoticeRaised, Request, Sampling
from tests.fakes.model import run

FOLDER = profile_folder() / "demo"
GREEDY = Sampling(temperature=0.0)
QUESTIONS = ("hello", "what is a glacier?", "can you give an example?")


@pytest.fixture(scope="module")
def engine():
    chosen = Choice(FOLDER, get_profile("demo", load_profiles()), is_demo=True)
    settings = Settings(model=ModelSettings(device="cpu", threads=1))
    engine = open_engine(chosen, settings, None, threading.Event())
    yield engine
    engine.close()


@pytest.fixture
def routed(engine):
    """The same engine, its rounds routed at the prices of an H200."""
    machine = engine._machine
    prices = Prices(shipped_prices("sm_90", "fp8_block"), learns=False)
    engine._machine = replace(machine, routing=Routing(prices, max_steps=7))
    yield engine
    engine._machine = machine


def talk(engine, sampling: Sampling, drafter: str):
    """Three turns of one conversation; their events."""
    messages: tuple[Message, ...] = ()
    turns = []
    for question in QUESTIONS:
        messages = (*messages, Message("user", question))
        request = Request(
            messages=messages, sampling=sampling, drafter=drafter, max_tokens=64, keep_logits=True
        )
        turns.append(run(engine, request))
        record = turns[-1][-1].record
        messages = (*messages, Message("assistant", record.text, record.reasoning))
    return turns


@pytest.mark.parametrize("name", ["greedy", "seeded"])
def test_a_conversation_has_the_same_bits_with_and_without_drafting(engine, name):
    seeded = replace(engine.info.default_sampling, seed=7)
    sampling = Sampling(temperature=0.0) if name == "greedy" else seeded
    plain, drafted = (talk(engine, sampling, drafter) for drafter in ("off", "auto"))
    for plain_turn, drafted_turn in zip(plain, drafted, strict=True):
        one, other = plain_turn[-1].record, drafted_turn[-1].record
        assert (other.text, other.token_ids) == (one.text, one.token_ids)
        assert torch.equal(other.logits, one.logits)
        assert other.ranges == one.ranges
    rounds = [round_ for turn in drafted for round_ in turn[-1].record.rounds]
    assert {one.drafter for one in rounds} == {"mtp"}
    assert sum(len(one.token_ids) for one in rounds) / len(rounds) > 1.5


def tokens_in(record) -> float:
    """Committed tokens a round."""
    return sum(len(one.token_ids) for one in record.rounds) / len(record.rounds)


def test_a_routed_conversation_has_the_same_bits_and_takes_what_serves_it_best(routed):
    """At an H200's prices: MTP for what is new, copies of what was said."""
    question = Message("user", QUESTIONS[1])
    request = Request(messages=(question,), sampling=Sampling(temperature=0.0), keep_logits=True)
    plain = run(routed, replace(request, drafter="off"))[-1].record
    again = replace(request, messages=(question, Message("assistant", plain.text), question))
    names: list[set[str]] = []
    for asked in (request, again):
        one, other, head = (
            run(routed, replace(asked, drafter=name))[-1].record for name in ("off", "auto", "mtp")
        )
        assert other.token_ids == one.token_ids
        assert torch.equal(other.logits, one.logits)
        assert tokens_in(other) > tokens_in(head)
        names.append({round_.drafter for round_ in other.rounds})
    assert "mtp" in names[0]
    assert names[1] == {"lookup"}


def test_turns_go_on_from_each_other(engine):
    turns = talk(engine, Sampling(temperature=0.0), "auto")
    before = None
    for events in turns:
        record = events[-1].record
        assert record.finish_reason == "stop"
        if before is not None:
            assert record.reused_tokens == before.prompt_tokens + len(before.token_ids) - 1
            assert not any(isinstance(one, NoticeRaised) for one in events)
        before = record


def test_a_conversation_goes_on_in_a_fresh_engine_with_the_same_bits(engine):
    """As after an end of the program: what is recorded is enough to compute the state again."""
    messages: tuple[Message, ...] = ()
    for question in QUESTIONS[:2]:
        messages = (*messages, Message("user", question))
        record = run(engine, Request(messages=messages, sampling=GREEDY))[-1].record
        messages = (*messages, Message("assistant", record.text, record.reasoning, record))
    request = Request(
        messages=(*messages, Message("user", QUESTIONS[2])), sampling=GREEDY, keep_logits=True
    )
    wanted = run(engine, request)[-1].record
    fresh = LocalEngine(engine.info, engine._machine, engine._template, Drafting("mtp", 7))
    events = run(fresh, request)
    got = events[-1].record
    assert got.token_ids == wanted.token_ids
    assert torch.equal(got.logits, wanted.logits)
    assert (got.prompt_ids, got.ranges) == (wanted.prompt_ids, wanted.ranges)
    assert (got.reused_tokens, got.reread_tokens) == (0, wanted.reused_tokens)
    assert any(isinstance(one, NoticeRaised) and "read again exactly" in one.text for one in events)


def test_a_text_that_is_asked_for_again_takes_few_rounds(engine):
    """As an edit repeats its text; the demo cannot edit on demand, but it says this again."""
    question = Message("user", QUESTIONS[1])
    request = Request(messages=(question,), sampling=Sampling(temperature=0.0), drafter="off")
    first = run(engine, request)[-1].record
    again = replace(request, messages=(question, Message("assistant", first.text), question))
    records = {
        drafter: run(engine, replace(again, drafter=drafter))[-1].record
        for drafter in ("off", "mtp", "lookup")
    }
    assert {one.token_ids for one in records.values()} == {first.token_ids}

    def tokens_a_round(drafter: str) -> float:
        assert {one.drafter for one in records[drafter].rounds} == {drafter}
        return tokens_in(records[drafter])

    assert tokens_a_round("off") == 1
    assert tokens_a_round("mtp") > 1.5
    assert tokens_a_round("lookup") > 4
