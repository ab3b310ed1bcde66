"""What does not fit a choice of tokens, or a round's end, is refused in a sentence."""

from dataclasses import replace

import pytest
import torch

from kernels.sample import (
    AcceptBuffers,
    SampleParams,
    SampleScratch,
    TreeRows,
    accept,
    mark_rows,
    sample_rows,
)
from kernels.sample.reference import Filters

V = 10
GREEDY = Filters(0.0, 0, 1.0, 0.0)


def zeros(*shape: int) -> torch.Tensor:
    return torch.zeros(shape, dtype=torch.int32)


def marks() -> torch.Tensor:
    return torch.zeros(V, dtype=torch.uint8)


def tree_rows() -> TreeRows:
    return TreeRows(zeros(1), zeros(32), zeros(32, 32), zeros(32), marks(), marks())


def choose(num_rows: int = 2, num_logits: int = V, room: int = V, **changed: torch.Tensor) -> None:
    params = SampleParams("cpu")
    method = params.write(GREEDY, seed=1, num_ids=V)
    rows = replace(tree_rows(), **changed)
    logits, ids = torch.zeros(num_rows, num_logits), zeros(num_rows)
    sample_rows(logits, params, rows, method=method, ids=ids, scratch=SampleScratch(room, "cpu"))


def test_what_fits_is_taken():
    choose()
    accept(zeros(2), zeros(32), AcceptBuffers.allocate("cpu"))
    mark_rows(zeros(80), marks(), marks())


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"num_rows": 33}, "got T = 33 rows, expected at most 32; call it in slices"),
        ({"room": 9}, "rows of 10 logits do not fit a scratch for 9"),
        ({"start": zeros(2)}, r"start must be \[1\] = \[1\], got \[2\]"),
        ({"depths": zeros(31)}, r"depths must be \[32\] = \[32\], got \[31\]"),
        ({"paths": zeros(32, 31)}, r"paths must be \[32, 32\] = \[32, 32\], got \[32, 31\]"),
        ({"row_ids": zeros(2)}, r"row_ids must be \[32\] = \[32\], got \[2\]"),
        ({"seen": marks()[:9]}, r"seen must be \[V\] = \[10\], got \[9\]"),
    ],
)
def test_rows_that_do_not_fit_are_refused(changed, sentence):
    with pytest.raises(ValueError, match=sentence):
        choose(**changed)


@pytest.mark.parametrize(
    ("numbers", "sentence"),
    [
        ({"seed": -1, "num_ids": V}, r"seed is -1; give 0 to 2\^63 - 1"),
        ({"seed": 1 << 63, "num_ids": V}, "seed is 9223372036854775808"),
        ({"seed": 0, "num_ids": 0}, r"num_ids is 0; give 1 to 2\^20"),
        ({"seed": 0, "num_ids": (1 << 20) + 1}, "num_ids is 1048577"),
    ],
)
def test_numbers_out_of_their_range_are_refused(numbers, sentence):
    with pytest.raises(ValueError, match=sentence):
        SampleParams("cpu").write(GREEDY, **numbers)


@pytest.mark.parametrize(
    ("chosen", "parents", "changed", "sentence"),
    [
        (zeros(0), zeros(32), {}, "got 0 chosen ids, expected 1 to 32"),
        (zeros(33), zeros(32), {}, "got 33 chosen ids"),
        (zeros(2), zeros(2), {}, r"parents must be \[32\] = \[32\], got \[2\]"),
        (zeros(2), zeros(32), {"result": zeros(79)}, r"result must be \[80\] = \[80\], got \[79\]"),
        (zeros(2), zeros(32), {"budget": zeros(2)}, r"budget must be \[1\] = \[1\], got \[2\]"),
    ],
)
def test_a_rounds_end_that_does_not_fit_is_refused(chosen, parents, changed, sentence):
    with pytest.raises(ValueError, match=sentence):
        accept(chosen, parents, replace(AcceptBuffers.allocate("cpu"), **changed))


def test_a_result_that_is_cut_marks_nothing():
    with pytest.raises(ValueError, match=r"result must be \[80\] = \[80\], got \[79\]"):
        mark_rows(zeros(79), marks(), marks())
