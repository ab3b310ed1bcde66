"""What moves the choice of a token in a turn: padding, penalties, a bias; and what does not."""

import pytest
import torch

from engine.types import Sampling
from tests.engine.turn.asked import PROMPT, ask, counting
from tests.fakes.model import FakeModel, local_engine


def test_padding_rows_are_never_chosen(folder):
    logits = torch.zeros(320)
    logits[319], logits[65] = 9.0, 1.0
    engine = local_engine(FakeModel(lambda _: logits), folder)
    assert set(ask(engine, max_tokens=3)[1].token_ids) == {65}


def test_penalties_count_what_was_generated_and_read(folder):
    logits = torch.zeros(320)
    logits[40], logits[70], logits[71] = 3.0, 2.9, 2.8
    engine = local_engine(FakeModel(lambda _: logits), folder)
    presence = Sampling(temperature=0.0, presence_penalty=1.0)
    assert ask(engine, sampling=presence, max_tokens=3)[1].token_ids == (40, 70, 71)
    repetition = Sampling(temperature=0.0, repetition_penalty=2.0)
    assert ask(engine, sampling=repetition, max_tokens=3)[1].token_ids == (70, 71, 40)


def test_penalties_pass_over_ids_that_no_token_has(folder):
    sampling = Sampling(temperature=0.0, presence_penalty=1.0)
    _, record = ask(
        local_engine(FakeModel(counting), folder),
        prompt_ids=(*PROMPT, 319), sampling=sampling, max_tokens=2,
    )  # fmt: skip
    assert (record.token_ids, record.error) == ((50, 51), "")


@pytest.mark.parametrize("drafter", ["off", "replay", "half"])
def test_a_bias_moves_the_choice_and_not_the_logits(folder, drafter):
    logits = torch.zeros(320)
    logits[40], logits[70], logits[71] = 3.0, 2.0, 1.0
    engine = local_engine(FakeModel(lambda _: logits), folder)
    for bias, chosen in (
        (((40, -100.0),), 70), (((71, 2.5),), 71), (((40, -1e6), (71, 1.0)), 70),
    ):  # fmt: skip
        sampling = Sampling(temperature=0.0, logit_bias=bias)
        options = {"sampling": sampling, "max_tokens": 4, "drafter": drafter, "keep_logits": True}
        record = ask(engine, **options)[1]
        assert set(record.token_ids) == {chosen}
        assert all(torch.equal(row, logits) for row in record.logits)


def test_logits_are_kept_on_demand(folder):
    engine = local_engine(FakeModel(counting), folder)
    assert ask(engine, max_tokens=3)[1].logits is None
    logits = ask(engine, max_tokens=3, keep_logits=True, drafter="replay")[1].logits
    assert (logits.dtype, logits.shape) == (torch.float32, (3, 320))
    assert logits.argmax(1).tolist() == [50, 51, 52]
