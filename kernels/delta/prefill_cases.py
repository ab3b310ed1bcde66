"""List the problems that the chunked delta rule is checked on; `cases.py` includes them."""

from collections.abc import Iterator

from kernels.common import domain
from kernels.common.case import Case
from kernels.common.family import Op
from kernels.delta.prefill_laws import LAWS
from kernels.delta.prefill_problems import (
    ALIKE,
    NO_DECAY,
    NOTHING,
    REPEATED,
    STEEP,
    WHOLE,
    prefill_case,
    run_prefill,
)
from kernels.delta.prefill_timed import timed
from kernels.delta.prefill_truth import truth_prefill

__all__ = ["CASES", "LAWS", "OPS", "timed"]

OPS = {"delta_prefill": Op(run_prefill, truth_prefill)}
"""No model of its bits: the order of a tensor core's sums is not known."""


def _cases() -> Iterator[Case]:
    for num_rows in (1, 2, 17, 63, 64, 65, 130):
        yield prefill_case(num_rows, 1, 1)
    yield prefill_case(70, 1, 3)
    yield prefill_case(5, 2, 4)
    for keys in (REPEATED, ALIKE):
        yield prefill_case(100, 1, 1, keys=keys, betas=WHOLE)
        yield prefill_case(100, 1, 1, keys=keys, betas=WHOLE, gates=NO_DECAY)
    yield prefill_case(100, 1, 1, gates=STEEP)
    yield prefill_case(100, 1, 1, keys=REPEATED, gates=STEEP, betas=WHOLE)
    yield prefill_case(70, 1, 1, betas=NOTHING, gates=NO_DECAY)
    for hostile in domain.HOSTILE:
        yield prefill_case(70, 1, 1, keys=hostile)
        yield prefill_case(70, 1, 1, values=hostile)
    for heads in ((16, 16), (16, 32), (16, 48)):
        for num_rows in (1, 63, 300):
            yield prefill_case(num_rows, *heads, cuda_only=True)
    yield prefill_case(1500, 16, 48, cuda_only=True)
    yield prefill_case(1500, 16, 48, keys=ALIKE, betas=WHOLE, cuda_only=True)
    yield prefill_case(4200, 2, 6, cuda_only=True)


CASES = tuple(_cases())
