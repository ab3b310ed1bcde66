"""Drafted rounds are timed behind those that warm up, and held against plain decode."""

import pytest

from engine.bench.drafts import NUM_STEPS, NUM_WARM_UP, time_drafts, tokens_for
from engine.bench.model import any_ids
from engine.compute_path import KernelError
from engine.turn.clock import PhaseClock
from engine.turn.verify import RowWalk
from tests.fakes.model import FakeModel

CONTEXT = 5
NUM_ROUNDS = 6


def follow(context):
    """Token 0 stands behind the context, and 1, 2, 3, ... behind that."""
    return len(context) - CONTEXT


TRUTH = list(range(tokens_for(NUM_ROUNDS)))


@pytest.fixture
def numbered(monkeypatch):
    """Clocks of which the n-th says that its round took n milliseconds to draft."""
    asked = []

    def ms(_):
        asked.append(1)
        return {"draft": float(len(asked)), "verify": 10.0, "accept": 0.0, "host": 1.0}

    monkeypatch.setattr(PhaseClock, "ms", ms)
    return asked


def timed(guess, truth=TRUTH):
    model = FakeModel(follow, guess=guess)
    return time_drafts(model, RowWalk(model), CONTEXT, truth, NUM_ROUNDS)


def test_a_head_that_is_wrong_commits_one_token_and_as_many_rounds_as_asked_are_timed(numbered):
    found = timed(lambda _: 319)
    assert (found.rows, found.steps, found.tokens) == (NUM_STEPS + 1, NUM_STEPS, 1.0)
    assert len(numbered) == NUM_WARM_UP + NUM_ROUNDS
    draft_ms = NUM_WARM_UP + (NUM_ROUNDS + 1) / 2  # the median of 5 to 10
    assert found.ms == {"draft": draft_ms, "verify": 10.0, "accept": 0.0, "host": 1.0}
    assert found.step_ms == pytest.approx(draft_ms / NUM_STEPS)
    assert found.round_ms == pytest.approx(draft_ms + 11.0)
    assert found.kernels is None


def test_a_head_that_is_right_uses_up_the_truth_and_leaves_a_round_to_time(numbered):
    found = timed(follow)
    assert found.tokens == NUM_STEPS + 1
    assert NUM_WARM_UP < len(numbered) < NUM_WARM_UP + NUM_ROUNDS


def test_tokens_are_those_of_the_rounds_that_are_timed():
    """Right as long as rounds warm up, and then wrong."""
    most = CONTEXT + 1 + NUM_WARM_UP * (NUM_STEPS + 1)
    assert timed(lambda context: follow(context) if len(context) < most else 319).tokens == 1.0


def test_a_round_that_chooses_otherwise_is_a_fault_with_both():
    truth = [*TRUTH[:3], 77, *TRUTH[4:]]
    with pytest.raises(KernelError, match=r"A drafted round chose \[3\], and plain decode .* \[77"):
        timed(lambda _: 319, truth)


def test_a_model_without_a_head_has_nothing_to_time():
    model = FakeModel(follow)
    assert time_drafts(model, RowWalk(model), CONTEXT, TRUTH, NUM_ROUNDS) is None


def test_the_context_is_the_one_that_was_decoded_behind():
    model = FakeModel(follow, guess=lambda _: 319)
    time_drafts(model, RowWalk(model), CONTEXT, TRUTH, NUM_ROUNDS)
    assert model.prefilled == [(0, CONTEXT)]
    assert list(model._contexts[CONTEXT - 1]) == any_ids(model.config, CONTEXT)
