"""List the problems that attention is checked on, and the laws between its functions."""

from collections.abc import Iterator

from kernels.attention import prep_cases, widen_cases
from kernels.attention.prefill_laws import LAWS as PREFILL_LAWS
from kernels.attention.prep_laws import LAWS as PREP_LAWS
from kernels.attention.prep_timed import timed_prep
from kernels.attention.prepared_laws import LAWS as PREPARED_LAWS
from kernels.attention.verify_laws import LAWS as VERIFY_LAWS
from kernels.attention.verify_problems import (
    compact_case,
    run_compact,
    run_verify,
    verify_case,
)
from kernels.attention.verify_timed import timed_verify
from kernels.attention.verify_truth import truth_compact, truth_verify
from kernels.common import domain
from kernels.common.case import Case
from kernels.common.family import Family, Op
from kernels.common.problem import ModelSizes, Problem

CHAIN_STARTS = (0, 1, 62, 63, 64, 65, 127, 255, 256, 257, 992, 1023, 1024, 1025, 1151, 2047, 2048,
                2049, 4095, 4096, 4097, 8191, 8192, 16_384)  # fmt: skip
"""Starts at every kind of chunk edge: own rows in one chunk, in two, in one of their own."""

CODED_STARTS = (0, 1, 62, 63, 64, 65, 255, 256, 257, 1023, 1024, 1025, 2048, 4095, 4096, 4097, 8192)

FAR_STARTS = (32_767, 131_071, 262_100)

SHAPES = ((24, 4), (8, 2), (16, 4), (6, 1))
"""Query and KV heads of the 27B, of its siblings and of the demo."""


def _on_gpu() -> Iterator[Case]:
    for start in CHAIN_STARTS:
        yield verify_case(32, start, heads=6, groups=1)
    for start in FAR_STARTS:
        yield verify_case(3, start, heads=6, groups=1)
    for heads, groups in SHAPES:
        yield verify_case(32, 1000, heads=heads, groups=groups)
        yield verify_case(32, 1010, heads=heads, groups=groups, tree=heads)
        yield verify_case(1, 3000, heads=heads, groups=groups)
    for values in domain.HOSTILE:
        yield verify_case(9, 1020, heads=6, groups=1, values=values)
    yield from _coded_on_gpu()


def _coded_on_gpu() -> Iterator[Case]:
    """The same of e4m3 codes, fewer starts: chunks and paths are those of BF16."""
    for start in CODED_STARTS:
        yield verify_case(32, start, heads=6, groups=1, coded=True)
    yield verify_case(3, FAR_STARTS[0], heads=6, groups=1, coded=True)
    for heads, groups in SHAPES:
        yield verify_case(32, 1000, heads=heads, groups=groups, coded=True)
        yield verify_case(32, 1010, heads=heads, groups=groups, tree=heads, coded=True)
        yield verify_case(1, 3000, heads=heads, groups=groups, coded=True)
    for values in domain.HOSTILE:
        yield verify_case(9, 1020, heads=6, groups=1, values=values, coded=True)


def _anywhere() -> Iterator[Case]:
    """Few rows and positions, for a CPU too."""
    for coded in (False, True):
        for start in (0, 1, 63, 70):
            yield verify_case(4, start, heads=6, groups=1, coded=coded, cuda_only=False)
        for tree, start in ((1, 46), (2, 62)):  # own rows that begin an instruction, and a tile
            yield verify_case(6, start, heads=8, groups=2, tree=tree, coded=coded, cuda_only=False)
        for values in domain.HOSTILE:
            yield verify_case(3, 40, heads=6, groups=1, values=values, coded=coded, cuda_only=False)
        for rows in (1, 4, 9, 20):
            yield compact_case(rows, 33, coded=coded)


def _timed(sizes: ModelSizes, rows: int) -> tuple[Problem, ...]:
    return (*timed_prep(sizes, rows), *timed_verify(sizes, rows))


FAMILY = Family(
    name="attention",
    ops={
        **prep_cases.OPS,
        **widen_cases.OPS,
        "attention_verify": Op(run_verify, truth_verify),
        "attention_compact": Op(run_compact, truth_compact),
    },
    cases=(*prep_cases.CASES, *widen_cases.CASES, *_anywhere(), *_on_gpu()),
    laws=(*PREP_LAWS, *VERIFY_LAWS, *PREPARED_LAWS, *PREFILL_LAWS),
    timed=_timed,
)
