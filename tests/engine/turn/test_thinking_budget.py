"""Thinking ends when its budget is spent, at the same token whatever is drafted."""

import pytest
import torch

from engine.text.tokenizer import Tokenizer
from engine.turn.thinking_budget import ThinkingBudget
from engine.types import Message, Request, Sampling
from tests.fakes.model import THINKING_TEMPLATE, FakeModel, local_engine, run, write_text_files

GREEDY = Sampling(temperature=0.0)
ENDLESS = " the ice"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_text_files(tmp_path_factory.mktemp("text"), THINKING_TEMPLATE)


@pytest.fixture(scope="module")
def tokenizer(folder):
    return Tokenizer.load(folder, 320)


def thinker(folder, tokenizer, *, closes_after=None):
    """A model that thinks the same words for ever, and says "a river" once its thinking is closed.

    ``closes_after`` closes it by itself behind so many tokens.
    """
    thought = tokenizer.encode(ENDLESS, control=True)
    answer = tokenizer.encode("a river<|im_end|>", control=True)
    close = tokenizer.think_close_id

    def follow(context):
        opened = len(context) - 1 - context[::-1].index(tokenizer.think_open_id)
        said = list(context[opened + 1 :])
        if close in said:
            blank = tokenizer.encode("\n\n", control=True)
            behind = said[said.index(close) + 1 :]
            wanted = [*blank, *answer]
            return wanted[min(len(behind), len(wanted) - 1)]
        if closes_after is not None and len(said) > closes_after:
            return close
        return thought[len(said) % len(thought)]

    return local_engine(FakeModel(follow, guess=follow), folder)


def ask(engine, **options):
    options = {"sampling": GREEDY, "drafter": "off", "max_tokens": 60, **options}
    return run(engine, Request(messages=(Message("user", "hello"),), **options))[-1].record


def num_thought(record, tokenizer):
    closing = tokenizer.encode("\n</think>", control=True)
    ids = list(record.token_ids)
    return next(at for at in range(len(ids)) if ids[at : at + len(closing)] == closing)


@pytest.mark.parametrize("budget", [0, 1, 7, 20])
def test_thinking_ends_behind_its_budget_and_the_answer_follows(folder, tokenizer, budget):
    record = ask(thinker(folder, tokenizer), thinking_budget=budget)
    assert (record.text, record.finish_reason) == ("a river", "stop")
    assert num_thought(record, tokenizer) == budget
    assert ("ice" in record.reasoning) is (budget > 0)


def test_an_answer_that_goes_on_has_what_is_left_of_its_budget(folder, tokenizer):
    begun = ask(thinker(folder, tokenizer), thinking_budget=9, max_tokens=4)
    spent = len(tokenizer.encode(begun.reasoning, control=False))
    assert (begun.text, spent > 0) == ("", True)

    def go_on(budget):
        begins = (Message("user", "hello"), Message("assistant", "", begun.reasoning))
        request = Request(
            messages=begins, sampling=GREEDY, drafter="off", max_tokens=60, thinking_budget=budget
        )
        return run(thinker(folder, tokenizer), request)[-1].record

    assert num_thought(go_on(9), tokenizer) == 9 - spent
    assert num_thought(go_on(1), tokenizer) == 0  # lowered meanwhile
    assert go_on(9).text == "a river"


@pytest.mark.parametrize("drafter", ["mtp", "lookup", "wrong", "half", "replay"])
@pytest.mark.parametrize("shape", ["chain", "tree"])
def test_a_budget_cuts_at_the_same_token_whatever_is_drafted(folder, tokenizer, drafter, shape):
    plain, drafted = (
        ask(
            thinker(folder, tokenizer),
            thinking_budget=9, drafter=name, draft_shape=shape, num_draft_tokens=5,
            keep_logits=True,
        )
        for name in ("off", drafter)
    )  # fmt: skip
    assert drafted.token_ids == plain.token_ids
    assert torch.equal(drafted.logits, plain.logits)
    assert (drafted.text, drafted.reasoning) == (plain.text, plain.reasoning)
    assert {one.drafter for one in drafted.rounds} == {drafter}
    if drafter == "replay":
        assert all(one.tested == one.accepted for one in drafted.rounds)


def test_thinking_that_ends_by_itself_is_left_alone(folder, tokenizer):
    limited, free = (
        ask(thinker(folder, tokenizer, closes_after=6), thinking_budget=budget)
        for budget in (30, None)
    )
    assert limited.token_ids == free.token_ids
    assert limited.text == "a river"


def test_an_answer_that_does_not_think_has_no_budget_to_spend(folder, tokenizer):
    record = ask(thinker(folder, tokenizer), thinking_budget=0, thinking=False)
    assert (record.text, record.reasoning) == ("a river", "")


def test_a_vocabulary_that_cannot_end_thinking_is_not_forced():
    budget = ThinkingBudget(0, True, 5, None, ())
    assert budget.forced is None
