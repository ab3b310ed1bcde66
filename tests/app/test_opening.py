"""From settings to a request: what nobody set is what the checkpoint says."""

from dataclasses import replace

from app.opening import sampling_of
from engine.settings.declared import SamplingSettings, Settings
from engine.types import Sampling
from tests.fakes.engine import INFO

THEIRS = Sampling(0.7, 20, 0.8, 0.05, 1.5, 1.1, 0)


def test_an_unset_value_is_the_checkpoints():
    info = replace(INFO, default_sampling=THEIRS)
    assert replace(sampling_of(Settings(), info), seed=0) == THEIRS


def test_a_set_value_wins_even_when_it_is_zero():
    info = replace(INFO, default_sampling=THEIRS)
    mine = SamplingSettings(
        temperature=0.0, top_k=0, top_p=1.0, min_p=0.0, presence_penalty=0.0,
        repetition_penalty=1.0, seed=7,
    )  # fmt: skip
    assert sampling_of(replace(Settings(), sampling=mine), info) == Sampling(0.0, seed=7)
