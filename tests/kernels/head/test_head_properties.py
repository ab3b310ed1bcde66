"""Properties of the choices from logits, and what their functions refuse."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.head import HeadScratch, argmax_logprob_rows, argmax_rows, topk_rows

quick = settings(max_examples=60, deadline=None)
VALUES = st.sampled_from([-math.inf, -2.0, -0.0, 0.0, 1.0, 1.5, 1e-30])
ROWS = st.lists(VALUES, min_size=1, max_size=40)


def choose(row: list[float], **options) -> int:
    logits = torch.tensor([row])
    ids = torch.empty(1, dtype=torch.int32)
    num_ids = options.pop("num_ids", len(row))
    scratch = HeadScratch(1, len(row), "cpu")
    return int(argmax_rows(logits, num_ids, ids=ids, scratch=scratch, **options))


@quick
@given(ROWS)
def test_the_lowest_of_the_largest_wins(row):
    want = row.index(max(row)) if max(row) > -math.inf else -1
    assert choose(row) == want


@quick
@given(ROWS, st.data())
def test_banned_ids_never_win(row, data):
    banned = data.draw(st.lists(st.integers(0, len(row) - 1), max_size=8))
    hidden = [-math.inf if token in banned else value for token, value in enumerate(row)]
    got = choose(
        row,
        banned=torch.tensor([*banned, 0], dtype=torch.int32),
        num_banned=torch.tensor([len(banned)], dtype=torch.int32),
    )
    assert got == choose(hidden)


@quick
@given(ROWS, st.randoms(use_true_random=False))
def test_a_map_chooses_the_lowest_token_id_among_equals(row, random):
    tokens = random.sample(range(1000), len(row))
    got = choose(row, id_map=torch.tensor(tokens, dtype=torch.int32), num_ids=1000)
    best = [token for token, value in zip(tokens, row, strict=True) if value == max(row)]
    assert got == (min(best) if max(row) > -math.inf else -1)


@quick
@given(ROWS, st.integers(1, 32))
def test_the_best_k_begin_with_the_best_one(row, k):
    logits, ids = torch.tensor([row]), torch.empty((1, k), dtype=torch.int32)
    values = torch.empty((1, k))
    topk_rows(logits, len(row), values=values, ids=ids, scratch=HeadScratch(1, len(row), "cpu"))
    assert int(ids[0, 0]) == choose(row)
    finite = [value for value in row if value > -math.inf]
    assert int((ids >= 0).sum()) == min(k, len(finite))


def test_the_log_probability_is_that_of_the_softmax():
    logits = torch.randn(3, 50, generator=torch.Generator().manual_seed(1)) * 5
    ids, logprobs = torch.empty(3, dtype=torch.int32), torch.empty(3)
    scratch = HeadScratch(3, 50, "cpu")
    argmax_logprob_rows(logits, 40, ids=ids, logprobs=logprobs, scratch=scratch)
    want = logits[:, :40].double().log_softmax(1).amax(1)
    assert torch.allclose(logprobs.double(), want, atol=1e-6)


def refused(error: type[Exception], words: str, **changes) -> None:
    logits = torch.zeros(2, 10)
    options = {"ids": torch.empty(2, dtype=torch.int32), "scratch": HeadScratch(2, 10, "cpu")}
    num_ids = changes.pop("num_ids", 10)
    with pytest.raises(error, match=words):
        argmax_rows(logits, num_ids, **(options | changes))


def test_arguments_that_do_not_fit_are_refused_in_words():
    refused(ValueError, "num_ids is 0; a vocabulary has 1 to 1048576", num_ids=0)
    refused(ValueError, "do not fit a scratch for 1 rows", scratch=HeadScratch(1, 10, "cpu"))
    refused(ValueError, "do not fit a scratch for 2 rows of 9", scratch=HeadScratch(2, 9, "cpu"))
    refused(ValueError, "come together", banned=torch.zeros(1, dtype=torch.int32))
    refused(TypeError, "ids must be int32", ids=torch.empty(2, dtype=torch.int64))
    refused(ValueError, "id_map must be", id_map=torch.zeros(9, dtype=torch.int32))


def test_more_than_32_of_a_row_are_refused():
    with pytest.raises(ValueError, match="33 logits a row; take 1 to 32"):
        topk_rows(
            torch.zeros(1, 50),
            50,
            values=torch.zeros(1, 33),
            ids=torch.zeros((1, 33), dtype=torch.int32),
            scratch=HeadScratch(1, 50, "cpu"),
        )


def test_places_of_the_best_lie_side_by_side():
    values, ids = torch.zeros(2, 3), torch.zeros((2, 3), dtype=torch.int32)
    for name, wide in (("values", torch.zeros(2, 6)), ("ids", torch.zeros(2, 6).int())):
        places = {"values": values, "ids": ids} | {name: wide[:, :3]}
        with pytest.raises(ValueError, match=f"{name} must be contiguous; allocate it anew"):
            topk_rows(torch.zeros(2, 50), 50, scratch=HeadScratch(2, 50, "cpu"), **places)
