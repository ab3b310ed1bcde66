"""Choose from logits: the best id, its log-probability, the best k."""

from kernels.head.op import argmax_logprob_rows, argmax_rows
from kernels.head.scratch import HeadScratch
from kernels.head.top import topk_rows

__all__ = ["HeadScratch", "argmax_logprob_rows", "argmax_rows", "topk_rows"]
