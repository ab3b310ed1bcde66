"""List the head's choices of a model as problems to time."""

from collections.abc import Callable
from functools import partial

import torch

from kernels.common.problem import Bar, ModelSizes, Problem, Tile
from kernels.common.round import MAX_ROWS
from kernels.head.op import argmax_logprob_rows, argmax_rows
from kernels.head.scratch import HeadScratch
from kernels.head.top import topk_rows

BARS = {1: Bar(max_us=6.0, gpu="H200"), 16: Bar(max_us=15.0, gpu="H200")}
"""Stated for logits that the product before has just written: 16 MB lie in the cache of an H200."""

TIMED_TOP = 20


def timed(sizes: ModelSizes, rows: int) -> tuple[Problem, ...]:
    """Return the choices of a model for up to 32 rows."""
    if rows > MAX_ROWS:
        return ()
    return (
        _problem("argmax", "argmax_rows", rows, sizes.vocab_size, BARS.get(rows)),
        _problem("argmax + log-probability", "argmax_logprob_rows", rows, sizes.vocab_size, None),
        _problem(f"best {TIMED_TOP}", "topk_rows", rows, sizes.vocab_size, None),
    )


def _problem(name: str, op: str, rows: int, num_logits: int, bar: Bar | None) -> Problem:
    return Problem(
        name=name,
        op=op,
        rows=rows,
        sizes={"T": rows, "V": num_logits},
        num_bytes=4 * rows * num_logits,
        make_calls=partial(_calls, op, rows, num_logits),
        bar=bar,
    )


def _calls(
    op: str, rows: int, num_logits: int, num_copies: int, device: str
) -> list[Callable[[Tile], object]]:
    return [_call(op, rows, num_logits, device) for _ in range(num_copies)]


def _call(op: str, rows: int, num_logits: int, device: str) -> Callable[[Tile], object]:
    logits = torch.randn((rows, num_logits), device=device)
    scratch = HeadScratch(rows, num_logits, device)
    shape = (rows, TIMED_TOP) if op == "topk_rows" else (rows,)
    ids = torch.empty(shape, dtype=torch.int32, device=device)
    numbers = torch.empty(shape, device=device)
    run = {
        "argmax_rows": partial(argmax_rows, logits, num_logits, ids=ids, scratch=scratch),
        "argmax_logprob_rows": partial(
            argmax_logprob_rows, logits, num_logits, ids=ids, logprobs=numbers, scratch=scratch
        ),
        "topk_rows": partial(
            topk_rows, logits, num_logits, values=numbers, ids=ids, scratch=scratch
        ),
    }[op]
    return lambda _tile: run()
