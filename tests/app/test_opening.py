"""From settings to a request: what nobody set is what the checkpoint says."""

from dataclasses import replace

import pytest

from app.opening import parse_bias, request_of, sampling_of
from engine.errors import SettingsError
from engine.settings.declared import ChatSettings, SamplingSettings, Settings
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


def test_a_bias_is_pairs_between_commas():
    assert parse_bias("") == ()
    assert parse_bias("13:2.5, 11:-100") == ((11, -100.0), (13, 2.5))
    mine = replace(Settings(), sampling=SamplingSettings(logit_bias="5:1"))
    assert sampling_of(mine, INFO).logit_bias == ((5, 1.0),)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("5", "holds '5', expected ID:NUMBER. Write pairs between commas"),
        ("a:1", "holds 'a:1'"),
        ("5:x,6:1", "holds '5:x'"),
        ("\u0661:5", "holds '\u0661:5'"),
        ("1:\u0665", "holds '1:\u0665'"),
        ("1_0:5", "holds '1_0:5'"),
        ("5:nan", "holds '5:nan'"),
        ("5:1,5:2", "names the id 5 twice"),
    ],
)
def test_a_bias_that_does_not_read_is_a_sentence(text, problem):
    with pytest.raises(SettingsError, match=problem):
        parse_bias(text)


def test_a_budget_and_the_way_back_are_settings():
    chat = ChatSettings(thinking_budget=40, resume="fast")
    asked = request_of(replace(Settings(), chat=chat), INFO, ())
    assert (asked.thinking_budget, asked.exact_resume) == (40, False)
    usual = request_of(Settings(), INFO, ())
    assert (usual.thinking_budget, usual.exact_resume) == (None, True)
