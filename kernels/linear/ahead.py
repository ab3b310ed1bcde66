"""Compile the skinny launches of many cases at one time, in threads, before the first one runs.

A launch compiles what it needs, 0.3 s a variant; a check needs hundreds.
"""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from os import cpu_count

import torch

from kernels.common.case import Case
from kernels.common.nvrtc import CompileError
from kernels.linear.formats import STEP
from kernels.linear.skinny_launch import ADD_RESIDUAL, SILU_PAIR, STORE, load
from kernels.linear.tile import SkinnyProblem, SkinnyTile, macros
from kernels.linear.tile_choice import defaults

EPILOGUES = {
    "skinny_linear": STORE,
    "skinny_logits": STORE,
    "skinny_residual": ADD_RESIDUAL,
    "skinny_pair": SILU_PAIR,
}
"""What each op of the family does with a sum."""


@dataclass(frozen=True)
class Variant:
    """One launch to compile: its tile and problem, and what else `skinny_launch.load` takes."""

    tile: SkinnyTile
    problem: SkinnyProblem
    epilogue: int = STORE
    fp32_out: bool = False
    overlap: bool = False
    prepared: bool = False

    @property
    def choices(self) -> object:
        """What the compiler sees of it; variants that agree here are one binary."""
        chosen = tuple(macros(self.tile, self.problem).items())
        return chosen, self.epilogue, self.fp32_out, self.overlap, self.prepared


def variants_of(case: Case, capability: tuple[int, int]) -> set[Variant]:
    """List what a case's calls of 1 to T rows launch by default; nothing if it is not skinny."""
    if case.op not in EPILOGUES:
        return set()
    epilogue, Kp = EPILOGUES[case.op], -(-case.sizes["K"] // STEP) * STEP
    problem = SkinnyProblem(case.sizes["N"], Kp, case.note, 8, epilogue == SILU_PAIR)
    tiles = defaults(problem.N, Kp, case.note, capability, paired=problem.paired)
    launches = {
        (-(-rows // 8) * 8, tile)
        for count in range(1, case.sizes["T"] + 1)
        for rows, tile in tiles.launches(count)
    }
    return {
        Variant(tile, replace(problem, rows=rows), epilogue, case.op == "skinny_logits")
        for rows, tile in launches
    }


def compile_ahead(variants: Iterable[Variant]) -> None:
    """Compile and load variants on the current device; what cannot be is left to its launch."""
    device = torch.cuda.current_device()

    def start() -> None:
        torch.zeros(1, device=f"cuda:{device}")  # a launch binds torch's context to this thread

    def one(variant: Variant) -> None:
        try:
            load(
                variant.tile, variant.problem, variant.epilogue, variant.fp32_out, variant.overlap,
                variant.prepared, device,
            )  # fmt: skip
        except (CompileError, RuntimeError):
            return

    with ThreadPoolExecutor(cpu_count(), initializer=start) as pool:
        list(pool.map(one, {variant.choices: variant for variant in variants}.values()))
