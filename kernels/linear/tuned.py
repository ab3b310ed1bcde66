"""Say how tiles of the products are swept: their keys, candidates, proofs and compilation."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import torch

from kernels.common.case import Case, Tensors
from kernels.common.problem import Problem, Row, Tunable
from kernels.linear import tile_choice
from kernels.linear.ahead import Variant, compile_ahead
from kernels.linear.problems import product_case, run_pair, run_skinny
from kernels.linear.skinny import operand_order
from kernels.linear.skinny_launch import SILU_PAIR, STORE
from kernels.linear.tile import ROW_CLASSES, SkinnyProblem, SkinnyTile
from kernels.linear.tile_choice import OP, PAIR_OP
from kernels.linear.timed import all_rows, capabilities, proof_outputs

TUNED_ROWS = (1, 16, 24, 32)
"""Rows at which an entry is timed, one of each class; 1 stands for 1 to 8, as decode runs it. Pairs
are timed at those that `timed` lists them for."""


def _run(inputs: Tensors, outputs: Tensors, tile: SkinnyTile | None) -> None:
    run_skinny(inputs, outputs, all_rows(tile, inputs["x"].shape[0]))


def _run_pair(inputs: Tensors, outputs: Tensors, tile: SkinnyTile | None) -> None:
    run_pair(inputs, outputs, all_rows(tile, inputs["x"].shape[0]))


def _key(problem: Problem) -> Row:
    sizes, rows = problem.sizes, _row_class(problem)
    return {"N": sizes["N"], "K": sizes["K"], "format": problem.format_name, "rows": rows}


def _row_class(problem: Problem) -> int:
    """Return the most rows of the launches that share the problem's entry."""
    return next(most for most in ROW_CLASSES if problem.rows <= most)


def _skinny_problem(key: Row, *, paired: bool) -> SkinnyProblem:
    return SkinnyProblem(key["N"], key["K"], key["format"], key["rows"], paired)


def _default(key: Row, *, paired: bool = False) -> SkinnyTile:
    return tile_choice.default_entry(_skinny_problem(key, paired=paired), capabilities()[0])


def _candidates(key: Row, *, paired: bool = False) -> Sequence[SkinnyTile]:
    problem = _skinny_problem(key, paired=paired)
    found = (tile_choice.candidates(problem, one) for one in capabilities())
    return tuple(dict.fromkeys(tile for tiles in found for tile in tiles))


def _case(problem: Problem) -> Case:
    rows, name, K = _row_class(problem), problem.format_name, problem.sizes["K"]
    N = proof_outputs(problem.sizes["N"], rows, paired=problem.op == PAIR_OP)
    return product_case(problem.op, name, rows, N, K, cuda_only=False)


def _compile(problem: Problem, tiles: Sequence[SkinnyTile]) -> None:
    if torch.cuda.is_available():
        compile_ahead(one for tile in tiles for one in launched(problem, tile))


def launched(problem: Problem, tile: SkinnyTile) -> Iterator[Variant]:
    """List what a tile's comparison of bits and its timed calls launch."""
    assert problem.case is not None
    key, paired = _key(problem), problem.op == PAIR_OP
    logits = problem.case.op == "skinny_logits"
    about = _skinny_problem(key, paired=paired)
    reads = operand_order(about.format, key["K"]) is not None and not logits
    for rows, is_timed in ((about.rows, False), (problem.rows, True)):
        tiles = all_rows(tile, rows)
        for count, one in tiles.launches(rows) if tiles else ():
            yield Variant(
                one,
                replace(about, rows=count),
                SILU_PAIR if paired else STORE,
                fp32_out=is_timed and logits,
                overlap=is_timed,
                prepared=is_timed and reads and tile.source != "global",
            )


KEY_FIELDS = ("N", "K", "format", "rows")

TUNABLES = (
    Tunable(
        op=OP,
        rows=TUNED_ROWS,
        key=_key,
        key_fields=KEY_FIELDS,
        candidates=_candidates,
        default=_default,
        case=_case,
        run=_run,
        to_row=SkinnyTile.as_row,
        from_row=tile_choice.from_row,
        compile=_compile,
    ),
    Tunable(
        op=PAIR_OP,
        rows=TUNED_ROWS,
        key=_key,
        key_fields=KEY_FIELDS,
        candidates=partial(_candidates, paired=True),
        default=partial(_default, paired=True),
        case=_case,
        run=_run_pair,
        to_row=SkinnyTile.as_row,
        from_row=tile_choice.from_row,
        compile=_compile,
    ),
)
