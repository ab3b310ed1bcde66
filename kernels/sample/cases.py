"""List the samplings that are checked, and the laws between them."""

from kernels.common.case import Case
from kernels.common.family import Family
from kernels.sample.laws import LAWS
from kernels.sample.problems import (
    COLD,
    FLAT,
    LOGITS,
    LONELY,
    PEAKED,
    TIES,
    Sampling,
    sample_case,
)
from kernels.sample.reference import Filters
from kernels.sample.timed import timed

VOCABULARY = 248_320

SAMPLINGS = {
    "greedy": Sampling(Filters(0.0)),
    "greedy_penalised": Sampling(Filters(0.0), 0.5, 1.3),
    "top_20": Sampling(Filters(0.7, 20, 0.95)),
    "top_20_penalised": Sampling(Filters(0.7, 20, 0.8, 0.02), 1.5, 1.1),
    "top_32": Sampling(Filters(1.5, 32)),
    "top_1": Sampling(Filters(1.0, 1)),
    "whole": Sampling(Filters()),
    "whole_min_p": Sampling(Filters(0.7, min_p=0.05)),
    "whole_top_p": Sampling(Filters(1.0, 0, 0.9)),
    "whole_top_p_penalised": Sampling(Filters(0.7, 0, 0.8, 0.02), 0.5, 1.2),
    "whole_top_100": Sampling(Filters(2.0, 100)),
    "whole_top_100_top_p": Sampling(Filters(2.0, 100, 0.7)),
}
"""Each is one function to the checks: `sample_rows` under a sampling."""

SEARCHED = ("whole_top_p", "whole_top_100", "whole_top_p_penalised", "whole_top_100_top_p")
"""Those that search: seconds a row in the interpreter, which the last two stand for all there."""


def _cases() -> tuple[Case, ...]:
    """Build all cases: one and three chunks on a CPU, the 27B's vocabulary on a GPU."""
    cases: list[Case] = []
    for name in SAMPLINGS:
        searched = name in SEARCHED
        few = sample_case(name, 1, 300, TIES, interpreted=name in SEARCHED[-2:])
        cases.append(few if searched else sample_case(name, 2, 300, TIES))
        cases.append(sample_case(name, 3, 5000, PEAKED, interpreted=not searched))
        cases.extend(
            sample_case(name, 3, 5000, values, interpreted=False)
            for values in (LOGITS, FLAT, LONELY, COLD)
        )
        cases.append(sample_case(name, 32, 300, interpreted=False))
        rows = 32 if name.endswith("penalised") else 3
        cases.append(sample_case(name, rows, VOCABULARY, PEAKED, cuda_only=True))
        cases.extend(
            sample_case(name, 2, VOCABULARY, values, cuda_only=True)
            for values in (LOGITS, TIES, FLAT)
        )
    return tuple(cases)


FAMILY = Family(
    name="sample",
    ops={name: sampling.op() for name, sampling in SAMPLINGS.items()},
    cases=_cases(),
    laws=LAWS,
    timed=timed,
)
