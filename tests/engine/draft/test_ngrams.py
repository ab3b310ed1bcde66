"""The index finds what a search of the whole text finds, however the text came about."""

import random
import statistics
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.draft.ngrams import MAX_PLACES, MAX_SUFFIX, ORDERS, NgramIndex
from tests.tries import slowness, tries

TEXTS = st.lists(st.integers(0, 2), max_size=60)


def index_of(*parts) -> NgramIndex:
    index = NgramIndex()
    for part in parts:
        index.extend(part)
    return index


def num_common(text, place) -> int:
    number = 0
    while number < min(MAX_SUFFIX, place) and text[place - 1 - number] == text[-1 - number]:
        number += 1
    return number


def copied(text, place, num_tokens) -> tuple[int, ...]:
    """Copy token by token, as an LZ77 decoder does: the copy may run into itself."""
    whole = list(text)
    for at in range(place, place + num_tokens):
        whole.append(whole[at])
    return tuple(whole[len(text) :])


def searched(text, num_tokens) -> list[tuple[int, ...]]:
    """The same by a search of the whole text."""
    places = range(len(text) - 1, 0, -1)
    for order in ORDERS:
        found = [one for one in places if num_common(text, one) >= order][:MAX_PLACES]
        if found:
            found.sort(key=lambda one: (-num_common(text, one), -one))
            return list(dict.fromkeys(copied(text, one, num_tokens) for one in found))
    return []


@given(TEXTS, st.integers(1, 31))
def test_what_is_found_is_what_a_search_finds(text, num_tokens):
    assert index_of(text).continuations(num_tokens) == searched(text, num_tokens)


@given(st.lists(TEXTS, min_size=1, max_size=4), st.integers(1, 9))
def test_another_text_leaves_nothing_behind(texts, num_tokens):
    """Growing, going back and changing over is as if the last text had been read alone."""
    index = NgramIndex()
    for text in texts:
        index.become(text)
        index.extend(text)
        index.truncate(len(text))
    fresh = index_of(texts[-1])
    assert len(index) == len(texts[-1])
    assert vars(index) == vars(fresh)
    assert index.continuations(num_tokens) == searched(texts[-1], num_tokens)


def test_a_match_in_the_text_always_proposes_the_full_number():
    for text in ([7, 7, 7], [1, 2, 1, 2], [3, 4, 5, 3, 4]):
        assert [len(one) for one in index_of(text).continuations(31)] == [31]


def test_a_repetition_goes_on():
    assert index_of([9, 1, 2, 3, 1, 2, 3]).continuations(5) == [(1, 2, 3, 1, 2)]


def test_the_longest_ending_comes_first_and_then_the_newest():
    longest = [1, 2, 3, 4, 5, 6, 7, 8, 9, 90]
    newest_of_eight = [2, 3, 4, 5, 6, 7, 8, 9, 91]
    shorter = [8, 9, 92]
    end = [1, 2, 3, 4, 5, 6, 7, 8, 9]
    text = [*longest, *newest_of_eight, *newest_of_eight[:-1], 93, *shorter, *end]
    firsts = [one[0] for one in index_of(text).continuations(1)]
    assert firsts == [90, 93, 91]


def test_it_backs_off_to_shorter_endings():
    assert index_of([4, 5, 6, 8, 5, 6]).continuations(1) == [(8,)]
    assert index_of([4, 5, 6, 8, 9, 6]).continuations(1) == []
    assert index_of([]).continuations(1) == index_of([1]).continuations(1) == []


@pytest.mark.timing
def test_committing_a_token_costs_the_same_after_any_context():
    """Nothing is read again: a round of 16 tokens is indexed in well below 0.2 ms at 32k."""
    draw = random.Random(0)
    index = index_of(draw.choices(range(2000), k=32_768))
    for _ in tries():
        taken: list[float] = []
        for _ in range(50):
            began = time.perf_counter()
            index.extend(draw.choices(range(2000), k=16))
            taken.append(time.perf_counter() - began)
        if (ms := statistics.median(taken) * 1e3) < 0.2 * slowness():
            return
    pytest.fail(f"it costs {ms:.2f} ms")
