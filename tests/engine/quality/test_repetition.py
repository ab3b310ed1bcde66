"""Loops are found by their length and period; language that only rhymes is none."""

import pytest

from engine.quality.repetition import LOOP_TOKENS, MAX_PERIOD, repetition_of


def test_an_answer_that_never_repeats():
    found = repetition_of(range(100))
    assert found.distinct == {1: 1.0, 2: 1.0, 4: 1.0}
    assert (found.loop_tokens, found.loop_period) == (0, 0)
    assert not found.is_looping


@pytest.mark.parametrize("period", [1, 2, 7, MAX_PERIOD])
def test_a_loop_is_told_with_its_passage(period: int):
    times = 2 + LOOP_TOKENS // period
    found = repetition_of([*range(1000, 1010), *list(range(period)) * times, 99_999])
    assert (found.loop_period, found.loop_tokens) == (period, period * times)
    assert found.is_looping


def test_a_passage_said_twice_is_a_loop_and_once_and_a_half_is_none():
    passage = list(range(50))
    assert repetition_of(passage * 2).loop_tokens == 100
    assert repetition_of(passage + passage[:25]).loop_tokens == 0


def test_words_that_come_back_elsewhere_lower_the_distinct_share_only():
    found = repetition_of([1, 2, 3, 9, 1, 2, 3, 8])
    assert found.distinct[1] == 5 / 8
    assert found.loop_tokens == 0


@pytest.mark.parametrize("ids", [[], [5]])
def test_no_text_is_no_loop(ids: list[int]):
    assert repetition_of(ids).distinct[4] == 1.0
    assert not repetition_of(ids).is_looping
