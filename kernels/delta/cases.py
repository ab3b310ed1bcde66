"""List the problems that the delta kernels are checked on, and the laws between them.

Of the walk and the fold: heads of the 27B (16 and 48), of its siblings and of the demo, 1 to 32
rows as chain, comb and bush, 0 to 32 pending rows in either half, gates at both ends, hostile
values, outputs as they are and gated. Of the prefill: see `prefill_cases.py`.
"""

from collections.abc import Iterator

import torch

from kernels.common import domain
from kernels.common.case import Case
from kernels.common.family import Family, Op
from kernels.common.problem import ModelSizes, Problem
from kernels.common.round import MAX_ROWS
from kernels.delta import prefill_cases, timed
from kernels.delta.laws import LAWS
from kernels.delta.model import model_fold, model_walk
from kernels.delta.problems import EXTREME_DECAYS, fold_case, run_fold, run_walk, walk_case
from kernels.delta.truth import truth_fold, truth_walk

SIBLINGS = ((16, 16), (16, 32), (16, 48))
"""Key and value heads."""

VALUES = (domain.ZERO_ROWS, domain.TINY, domain.HUGE, domain.OUTLIERS, domain.WIDE_EXPONENTS)


def _gated() -> Iterator[Case]:
    for weight in (torch.bfloat16, torch.float32):
        for num_rows in (1, 9, 32):
            yield walk_case(num_rows, 1, 3, shape="bush", pending=1, weight=weight)
    for value_dim in (16, 48, 64):  # 1, 3 and 4 tiles
        yield walk_case(5, 2, 4, pending=2, key_dim=32, value_dim=value_dim, weight=torch.bfloat16)
    for values in VALUES:
        yield walk_case(9, 2, 4, shape="comb", pending=3, values=values, weight=torch.bfloat16)
    yield walk_case(16, 16, 48, shape="comb", pending=8, weight=torch.bfloat16, cuda_only=True)


def _cases() -> Iterator[Case]:
    for num_rows in (1, 2, 3, 5, 16, 32):
        for shape in ("chain", "comb", "bush") if num_rows > 2 else ("chain",):
            yield walk_case(num_rows, 1, 3, shape=shape, pending=num_rows // 2)
    for pending in (*range(1, 9), 15, 31, 32):
        yield walk_case(4, 1, 3, pending=pending, parity=pending % 2)
    for pending in (1, 2, 31, 32):  # an H200 walks 8 rows or more by teams
        yield walk_case(8, 1, 3, pending=pending, parity=pending % 2)
    for key_heads, heads in SIBLINGS:
        yield walk_case(1, key_heads, heads, pending=1)
        yield walk_case(16, key_heads, heads, shape="bush", pending=8, cuda_only=True)
    yield walk_case(32, 16, 48, shape="bush", pending=32, parity=1, cuda_only=True)
    for key_dim, value_dim in ((32, 16), (32, 32), (64, 48), (96, 128), (128, 64)):
        for num_rows in (7, 9):
            yield walk_case(
                num_rows, 2, 4, shape="bush", pending=2, key_dim=key_dim, value_dim=value_dim
            )
    for values in VALUES:
        yield walk_case(9, 2, 4, shape="comb", pending=3, values=values)
        yield walk_case(9, 2, 4, pending=3, parity=1, values=values, decays=EXTREME_DECAYS)
    yield from _gated()
    for pending in (0, 1, 5, MAX_ROWS):
        yield fold_case(3, 2, 6, pending)
    yield fold_case(4, 16, 48, 8, cuda_only=True)


WALK_CASES = tuple(_cases())
"""Of the walk and the fold."""


def _timed(sizes: ModelSizes, rows: int) -> tuple[Problem, ...]:
    return (*timed.timed(sizes, rows), *prefill_cases.timed(sizes, rows))


FAMILY = Family(
    name="delta",
    ops={
        "delta_walk": Op(run_walk, truth_walk, model_walk),
        "delta_fold": Op(run_fold, truth_fold, model_fold),
        **prefill_cases.OPS,
    },
    cases=(*WALK_CASES, *prefill_cases.CASES),
    laws=(*LAWS, *prefill_cases.LAWS),
    timed=_timed,
)
