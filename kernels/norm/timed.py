"""List the norms of a model as problems to time, and how their tiles are swept."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from kernels.common.case import Case
from kernels.common.peers import library_copy
from kernels.common.problem import Bar, ModelSizes, Problem, Run, Tunable, case_calls
from kernels.norm.problems import add_case, gated_case, rms_case, run_add, run_gated, run_rms
from kernels.norm.tile import NormTile, candidates, default

BAR = Bar(max_times_floor=1.5)
"""A norm takes at most this many times an empty launch plus its bytes."""

TUNED_ROWS = (1, 16, 1500)
"""Tokens that an entry is timed at: plain decode, a verify, and a piece of prefill."""

MANY_ROWS = (1500,)
"""The same of `add_rms_norm`, which has no tile for a round's rows."""


def timed(sizes: ModelSizes, rows: int) -> tuple[Problem, ...]:
    """Return every norm of a model, for a number of tokens."""
    heads, width = sizes.num_value_heads, sizes.value_head_dim
    return (
        _problem("residual + norm", rows, add_case(rows, sizes.hidden_size), run_add),
        _problem("norm", rows, rms_case(rows, sizes.hidden_size), run_rms),
        _problem("query norm", rows, rms_case(rows * sizes.num_heads, sizes.head_dim), run_rms),
        _problem("key norm", rows, rms_case(rows * sizes.num_kv_heads, sizes.head_dim), run_rms),
        _problem("gated norm", rows, gated_case(rows, heads, width=width), run_gated),
    )


def _problem(name: str, rows: int, case: Case, run: Run) -> Problem:
    num_bytes = case.read_bytes + case.written_bytes
    return Problem(
        name=name,
        op=case.op,
        rows=rows,
        sizes=case.sizes,
        num_bytes=num_bytes,
        make_calls=partial(case_calls, case, run),
        case=case,
        bar=BAR,
        peers=(library_copy(num_bytes),),
    )


def _tunable(
    op: str, run: Run, prove_on: Callable[[Problem], Case], rows: tuple[int, ...] = TUNED_ROWS
) -> Tunable:
    return Tunable(
        op=op,
        rows=rows,
        key=lambda problem: {"width": problem.sizes["D"]},
        key_fields=("width",),
        candidates=lambda key: candidates(key["width"]),
        default=lambda key: default(key["width"]),
        case=prove_on,
        run=run,
        to_row=_to_row,
        from_row=_from_row,
    )


def _to_row(tile: NormTile) -> dict[str, int]:
    return {"num_warps": tile.num_warps, "rows_per_program": tile.rows_per_program}


def _from_row(row: Mapping[str, Any]) -> NormTile:
    return NormTile(row["num_warps"], row["rows_per_program"])


TUNABLES = (
    _tunable("rms_norm", run_rms, lambda problem: rms_case(32, problem.sizes["D"])),
    _tunable("add_rms_norm", run_add, lambda problem: add_case(48, problem.sizes["D"]), MANY_ROWS),
    _tunable(
        "gated_rms_norm",
        run_gated,
        lambda problem: gated_case(32, problem.sizes["H"], width=problem.sizes["D"]),
    ),
)
