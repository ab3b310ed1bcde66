"""Losses are those of the model's own logits, whatever the windows; divergence never overstates."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from engine.compute_path import HELD_FORMATS
from engine.model.random import random_model
from engine.quality.forced import (
    Passage,
    Reading,
    compare_text,
    divergence,
    expect_text,
    windows_of,
)
from tests.engine.model.checkpoints import TINY

CONFIG = replace(TINY, vocab_size=700)
NUM_IDS = 650
IDS = torch.randint(0, NUM_IDS, (150,), generator=torch.Generator().manual_seed(3)).tolist()


@pytest.fixture(scope="module")
def models():
    return [random_model(CONFIG, HELD_FORMATS, device="cpu", seed=seed) for seed in (0, 1)]


def reading(ids, window_tokens: int = 1024) -> Reading:
    return Reading(windows_of(ids, window_tokens), NUM_IDS)


def silent(_num_scored: int) -> None:
    return


def logprobs_of(model, ids) -> torch.Tensor:
    """Every id's log probability behind every beginning of ``ids``, in one piece and fp64."""
    hidden = model.prefill(ids, model.new_state(256))
    return model.logits(hidden)[:, :NUM_IDS].double().log_softmax(dim=1)


def test_a_loss_is_minus_the_log_probability_of_the_next_token(models):
    model = models[0]
    found = expect_text(model, model.new_state(256), reading(IDS), silent)
    told = logprobs_of(model, IDS[:-1])
    expected = -told.gather(1, torch.tensor(IDS[1:])[:, None]).squeeze(1)
    assert np.allclose(found.loss, expected.numpy(), atol=1e-5)
    assert found.top_ids.shape == (149, 256)
    assert (found.top_ids[:, 0] == told.argmax(dim=1).numpy()).all()


def test_every_token_but_the_first_is_predicted_once_and_windows_begin_empty(models):
    model, told = models[0], []
    found = expect_text(model, model.new_state(64), reading(IDS, 64), told.append)
    assert told == [64, 128, 149]
    whole = expect_text(model, model.new_state(256), reading(IDS), silent)
    assert np.array_equal(found.loss[:64], whole.loss[:64])
    second = expect_text(model, model.new_state(256), reading(IDS[64:129]), silent)
    assert np.array_equal(found.loss[64:128], second.loss)


def test_of_an_answer_its_own_tokens_are_predicted_behind_its_question(models):
    model = models[0]
    both = (Passage(tuple(IDS[:40]), 25), Passage(tuple(IDS[40:60]), 10))
    found = expect_text(model, model.new_state(256), Reading(both, NUM_IDS), silent)
    first, second = (
        expect_text(model, model.new_state(256), reading(one.ids), silent).loss for one in both
    )
    assert np.array_equal(found.loss, np.concatenate((first[24:], second[9:])))


def test_a_model_agrees_with_itself_to_the_bit(models):
    model, whole = models[0], reading(IDS)
    expected = expect_text(model, model.new_state(256), whole, silent)
    found = compare_text(model, model.new_state(256), whole, expected, silent)
    assert np.array_equal(found.loss, expected.loss)
    assert np.array_equal(found.chosen, expected.top_ids[:, 0])
    assert not found.divergence.any()


def test_another_model_differs_and_its_divergence_is_at_most_the_whole(models):
    ids = reading(IDS)
    expected = expect_text(models[0], models[0].new_state(256), ids, silent)
    found = compare_text(models[1], models[1].new_state(256), ids, expected, silent)
    p, q = (logprobs_of(one, IDS[:-1]) for one in models)
    whole = (p.exp() * (p - q)).sum(dim=1).numpy()
    assert (found.divergence > 0).all()
    assert (found.divergence <= whole + 1e-4).all()
    assert found.divergence.mean() > 0.5 * whole.mean()
    assert (found.chosen == q.argmax(dim=1).numpy()).all()


def test_divergence_counts_what_is_not_among_the_ids_as_one():
    p, q = np.log(np.array([[0.5, 0.3]], "f4")), np.log(np.array([[0.3, 0.2]], "f4"))
    whole = 0.5 * np.log(0.5 / 0.3) + 0.3 * np.log(0.3 / 0.2) + 0.2 * np.log(0.2 / 0.5)
    assert divergence(p, q) == pytest.approx([whole], abs=1e-6)


def test_whoever_is_told_of_windows_can_stop_the_reading(models):
    def stop(_num_scored: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        expect_text(models[0], models[0].new_state(256), reading(IDS, 64), stop)
