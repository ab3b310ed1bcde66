"""Choose tokens: penalties, filters, and draws keyed by (seed, position); walk a verified tree.

`reference.py` is plain torch, so importing this package loads no Triton.
"""

from kernels.sample.accept import AcceptBuffers, accept
from kernels.sample.mark import mark_rows
from kernels.sample.op import sample_rows
from kernels.sample.params import Method, SampleParams, method_of
from kernels.sample.rows import SampleScratch, TreeRows

__all__ = [
    "AcceptBuffers",
    "Method",
    "SampleParams",
    "SampleScratch",
    "TreeRows",
    "accept",
    "mark_rows",
    "method_of",
    "sample_rows",
]
