"""Run each call of a proof once ahead of it, in threads, so that all are compiled at one time.

What a check waits for most is compilation: a launch compiles what it needs, 0.3 to 3 s of one core
each, and a family has hundreds. Compilers let go of the interpreter: threads do it at one time.
"""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from os import cpu_count

from kernels.common.case import Case
from kernels.common.family import Op
from kernels.common.proofs import SEED, run_case, run_rows
from kernels.common.round import MAX_ROWS

MOST_BYTES = 64 << 20
"""Of a case that is run ahead: every thread holds one."""


def run_ahead(ops: Mapping[str, Op], cases: Iterable[Case], device: str) -> None:
    """Run the small ones of some cases, in calls of every row count that their proofs make.

    What fails is left for the proof to tell.
    """
    small = [one for one in cases if one.read_bytes + one.written_bytes <= MOST_BYTES]
    if not small:
        return
    call_ahead(partial(_run, ops, device, one) for one in small)


def call_ahead(calls: Iterable[Callable[[], object]]) -> None:
    """Make calls in threads, the first by itself: what drivers set up once, one thread sets up.

    Results are dropped, and what fails is left to whoever makes the call again.
    """
    waiting = iter(calls)
    if first := next(waiting, None):
        _call(first)
    with ThreadPoolExecutor(cpu_count()) as pool:
        list(pool.map(_call, waiting))


def _call(call: Callable[[], object]) -> None:
    with suppress(Exception):
        call()


def _run(ops: Mapping[str, Op], device: str, case: Case) -> None:
    op, num_rows = ops[case.op], case.sizes.get("T", 0)
    inputs = case.draw(SEED, device)
    run_case(op, case, inputs, device)
    counts = range(1, num_rows + 1) if num_rows <= MAX_ROWS else (1,)
    for count in counts if op.rows_alone else ():
        run_rows(op, case, inputs, device, 0, count)
