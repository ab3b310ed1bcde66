"""Run each kernel once on small problems, for compute-sanitizer to watch. Needs a GPU.

    for tool in memcheck racecheck synccheck initcheck; do
        PYTORCH_NO_CUDA_MEMORY_CACHING=1 \
            compute-sanitizer --tool $tool --target-processes application-only \
            --report-api-errors no --error-exitcode 1 python scripts/sanitize.py linear
    done

Without a family all of them run. Without torch's memory cache every tensor is an allocation of its
own, so that a read or write beside one is seen. `qwen38 check` proves the results; this looks at
nothing but memory. racecheck knows no barrier in shared memory (mbarrier): of `skinny` it reports
the sums that warps hand to those who add them, stores before an arrival and loads behind its wait.
synccheck follows so many barriers and no more: of runs beside others, one in ten or so ends with
"overflow of tracked cuda::barrier structures" and a launch failure that is not there without it.
API errors are left out: cuda-bindings looks for functions that a driver may lack.

`--seconds` begins no call after so many: a watched one is slow, and one that is cut short says
nothing. Whole rounds, from their graphs, are watched in the same way:
`python scripts/lossless.py --model small --device cuda --prompts 1 --tokens 12`.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import groupby, zip_longest
from math import inf
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

from kernels import FAMILY_MODULES
from kernels.common.case import Case
from kernels.common.chips import has_wgmma
from kernels.common.family import Family, Op, load_families
from kernels.common.operands import operands_of
from kernels.common.proofs import SEED
from kernels.common.round import MAX_ROWS
from kernels.linear.ahead import Variant, compile_ahead
from kernels.linear.laws import drawn
from kernels.linear.problems import FORMATS
from kernels.linear.skinny import order_of, skinny_linear
from kernels.linear.streamed import GROUP_TILES
from kernels.linear.tile import CLUSTERS, SkinnyProblem, SkinnyTile, SkinnyTiles, Source
from kernels.linear.tile_room import fits, most_tiles
from kernels.linear.weight import Weight
from kernels.mixer.laws import PLANS, play
from kernels.mixer.rounds import Sizes

MOST_BYTES = 8 << 20
"""Of a case's tensors: a watched kernel runs some hundred times slower."""

KEEPING: tuple[Source, ...] = ("shared", "global")
"""Where activations stay; streamed ones do not."""

Call = tuple[str, Callable[[], str | None]]
"""What is run, and the run; it returns what is wrong, if it sees it."""


def main() -> None:
    """Run the families that are named."""
    parser = argparse.ArgumentParser(description="Run each kernel once on small problems.")
    parser.add_argument("families", nargs="*", metavar="FAMILY", help=", ".join(FAMILY_MODULES))
    parser.add_argument("--seconds", type=float, default=inf, help="no call begins after them")
    arguments = parser.parse_args()
    names = arguments.families or tuple(FAMILY_MODULES)
    if unknown := sorted(set(names) - set(FAMILY_MODULES)):
        parser.error(f"no kernel family {', '.join(unknown)}; there is {', '.join(FAMILY_MODULES)}")
    if not torch.cuda.is_available():
        sys.exit("sanitize: no CUDA device is here; run it on a machine with a GPU")
    ends_s = time.perf_counter() + arguments.seconds
    calls = in_turn([calls_of(family) for family in load_families(names)])
    for number, (about, call) in enumerate(calls):
        if time.perf_counter() >= ends_s:
            print(f"{number} of {len(calls)} calls ran in {arguments.seconds:.0f} s")
            return
        print(about, flush=True)
        fault = call()
        torch.cuda.synchronize()
        if fault:
            sys.exit(f"{about}: {fault}")
    print(f"all {len(calls)} calls ran")


def calls_of(family: Family) -> list[Call]:
    """Its small cases, and what no case says: launches of other kinds; all functions in turn."""
    by_op = [
        [_case_call(family.ops[name], case) for case in cases]
        for name, cases in groupby(small_cases(family), lambda case: case.op)
    ]
    return in_turn([MORE.get(family.name, list)(), *by_op])


def in_turn(rows: Sequence[Sequence[Call]]) -> list[Call]:
    """The first of each, then the second of each: in few seconds some of all are seen."""
    return [call for column in zip_longest(*rows) for call in column if call is not None]


def small_cases(family: Family) -> list[Case]:
    """The smallest and the largest small case of each function, note and number of rows."""

    def kind(case: Case) -> tuple[str, str, int]:
        return case.op, case.note, case.sizes.get("T", 0)

    def size(case: Case) -> int:
        return case.read_bytes + case.written_bytes

    small = sorted((one for one in family.cases if size(one) <= MOST_BYTES), key=kind)
    found: list[Case] = []
    for _, group in groupby(small, kind):
        alike = sorted(group, key=size)
        found += [alike[0], alike[-1]] if len(alike) > 1 else alike
    return found


def _case_call(op: Op, case: Case) -> Call:
    def run() -> str | None:
        inputs, outputs = case.draw(SEED, "cuda"), case.poisoned_outputs("cuda")
        op.run(inputs, outputs.tensors)
        return outputs.written_outside()

    return f"{case.op} {case.label}", run


def skinny_tiles(
    max_shared_bytes: int, num_sms: int
) -> Iterator[tuple[SkinnyProblem, SkinnyTile, bool]]:
    """One tile of every kind that fits: blocks of a cluster, source of the activations, finishers.

    Rings are as short as they may be, so that all are gone round; the last tile is ragged. Row
    counts, widths of a group and overlap change from kind to kind. With finishers there are so many
    outputs that teams have several groups.
    """
    kinds: list[tuple[str, int, Source, bool]] = [
        (name, splits, source, finished)
        for name in FORMATS
        for splits in CLUSTERS
        for source in KEEPING
        for finished in (False, True)
    ]
    for number, (name, splits, source, finished) in enumerate(kinds):
        rows = (8, 16, 24)[number % 3]
        problem = SkinnyProblem(6000 if finished else 1000, 2048, name, rows)
        cuts = (_cut(splits, crew, source, number, finished=finished) for crew in (4, 2, 1))
        crews = (tile for tiles in cuts for tile in tiles)
        fitting = (one for one in crews if fits(one, problem, num_sms, max_shared_bytes))
        if (tile := next(fitting, None)) is not None:
            yield problem, tile, number % 8 in (1, 2, 4, 7)


def streamed_tiles(num_sms: int) -> Iterator[tuple[SkinnyProblem, SkinnyTile, bool]]:
    """One tile past which activations stream, for each number of blocks of a cluster.

    A warpgroup has four tiles; the second of the last launch has one.
    """
    for number, splits in enumerate(CLUSTERS):
        problem = SkinnyProblem(1000, 4096, "nvfp4", MAX_ROWS if number % 2 else 24)
        held = most_tiles(SkinnyTile(splits, 1, 1, 2, "streamed", 0), problem, num_sms)
        tile = SkinnyTile(splits, -(-held // GROUP_TILES), held, 2, "streamed", 0)
        yield problem, tile, number > 1


def _cut(
    splits: int, crew: int, source: Source, number: int, *, finished: bool
) -> list[SkinnyTile]:
    wide, finishers = 1 + number // 2 % 3, crew if finished else 0
    return [SkinnyTile(splits, crew, tiles, 2, source, finishers) for tiles in (wide, 1, 4)]


def _skinny_calls() -> Iterator[Call]:
    properties = torch.cuda.get_device_properties("cuda")
    limit, num_sms = properties.shared_memory_per_block_optin, properties.multi_processor_count
    tiles = list(skinny_tiles(limit, num_sms))
    if has_wgmma((properties.major, properties.minor)):
        tiles += streamed_tiles(num_sms)
    compile_ahead(Variant(tile, one, overlap=overlap) for one, tile, overlap in tiles)
    for problem, tile, overlap in tiles:
        inputs, weight = drawn(problem.format, problem.rows, problem.N, problem.Kp, "cuda")
        about = f"skinny {problem.format} {problem.rows} rows {tile} overlap {overlap}"
        yield about, partial(_multiply, inputs["x"], weight, tile, overlap=overlap)


def _multiply(x: torch.Tensor, weight: Weight, tile: SkinnyTile, *, overlap: bool) -> None:
    """Multiply rows, and where that is another launch, rows that come as operands."""
    tiles, order = SkinnyTiles(tile, tile, tile, tile), order_of(weight, tile)
    operands = None if order is None or tile.source == "global" else operands_of(x, order)
    for _ in range(2 if overlap else 1):  # the second before the first has ended
        skinny_linear(x, weight, tiles=tiles, overlap=overlap)
    if operands is not None:
        skinny_linear(x, weight, tiles=tiles, operands=operands)


def _mixer_calls() -> Iterator[Call]:
    for sizes, overlap in ((Sizes(1, 3, 512), False), (Sizes(2, 6, 1500), True)):
        for plan in PLANS:
            for gated in (False, True):
                about = f"mixer {sizes} parents {plan.parents} overlap {overlap} gated {gated}"
                again = iter((plan, plan))  # after itself: the second has rows pending
                yield about, partial(play, sizes, again, "cuda", gated=gated, overlap=overlap)


MORE: dict[str, Callable[[], list[Call]]] = {
    "linear": lambda: list(_skinny_calls()),
    "mixer": lambda: list(_mixer_calls()),
}
"""By family: what is run beside its cases."""


if __name__ == "__main__":
    main()
