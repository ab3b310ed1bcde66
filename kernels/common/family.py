"""Say what a kernel family is to the checks, and find families by name.

To join: write `kernels/<family>/cases.py` with a `FAMILY`, add its line to
`kernels.FAMILY_MODULES`. The proofs of `proofs.py` then run on every case of the family; its
problems and tunables (`problem.py`) join `qwen38 bench kernels` and `qwen38 tune`.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib import import_module

from kernels import FAMILY_MODULES
from kernels.common.case import Case, Tensors
from kernels.common.problem import ModelSizes, Problem, Tunable


@dataclass(frozen=True)
class Op:
    """One public function as the checks see it.

    Attributes:
        run: calls the function: (inputs, outputs) -> None, writing into the given outputs.
        truth: computes the outputs in fp64 on the device of its inputs, written apart from kernel
            and reference; rounds nowhere, so that a wrong rounding point cannot hide in it. Where
            a bound follows from the inputs, it adds fp64 `NAME_slack` of the shape of output
            NAME: the error an element may have besides the case's tolerance.
        model: predicts the kernel's bits on CPU tensors in its own order of operations; None
            where the hardware's order is not known (a tensor core's accumulation).
        rows_alone: it promises a row the bits of the row alone; a library's product does not.
    """

    run: Callable[[Tensors, Tensors], None]
    truth: Callable[[Tensors], Tensors]
    model: Callable[[Tensors], Tensors] | None = None
    rows_alone: bool = True


@dataclass(frozen=True)
class Law:
    """A property between functions.

    Attributes:
        name: the property as a sentence.
        broken: tries it on a device: returns None when it holds, else why not.
        cuda_only: it speaks of launches, which a CPU has none of.
    """

    name: str
    broken: Callable[[str], str | None]
    cuda_only: bool = False


@dataclass(frozen=True)
class Family:
    """A folder of kernels: its functions, its cases and the laws between its functions.

    Attributes:
        name: as commands know it.
        ops: its functions.
        cases: what they are checked on.
        laws: properties between functions.
        timed: (sizes of a model, tokens of a call) -> what `qwen38 bench kernels` times; None
            where there is nothing to time yet.
        tunables: functions whose tiles `qwen38 tune` sweeps.
        compile: compiles for the present GPU what cases launch that `run_ahead` leaves out; None
            where it is nothing.
    """

    name: str
    ops: Mapping[str, Op]
    cases: tuple[Case, ...]
    laws: tuple[Law, ...] = field(default=())
    timed: Callable[[ModelSizes, int], tuple[Problem, ...]] | None = None
    tunables: tuple[Tunable, ...] = ()
    compile: Callable[[], None] | None = None


def load_families(names: Iterable[str] | None = None) -> tuple[Family, ...]:
    """Import families by name.

    Args:
        names: families wanted; None for all.

    Raises:
        ValueError: a name is none of `kernels.FAMILY_MODULES`.
    """
    wanted = tuple(FAMILY_MODULES) if names is None else tuple(names)
    unknown = [name for name in wanted if name not in FAMILY_MODULES]
    if unknown:
        known = ", ".join(FAMILY_MODULES)
        raise ValueError(f"no kernel family {', '.join(unknown)}; there is {known}")
    return tuple(import_module(FAMILY_MODULES[name]).FAMILY for name in wanted)
