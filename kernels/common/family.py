"""Say what a kernel family is to the checks, and find families by name.

To join: write `kernels/<family>/cases.py` with a `FAMILY`, add its line to
`kernels.FAMILY_MODULES`. The proofs of `proofs.py` then run on every case of the family.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib import import_module

from kernels import FAMILY_MODULES
from kernels.common.case import Case, Tensors


@dataclass(frozen=True)
class Op:
    """One public function as the checks see it.

    Attributes:
        run: calls the function: (inputs, outputs) -> None, writing into the given outputs.
        truth: computes the outputs in fp64, written apart from kernel and reference; rounds
            nowhere, so that a wrong rounding point cannot hide in it.
        model: predicts the kernel's bits on CPU tensors in its own order of operations; None
            where the hardware's order is not known (a tensor core's accumulation).
    """

    run: Callable[[Tensors, Tensors], None]
    truth: Callable[[Tensors], Tensors]
    model: Callable[[Tensors], Tensors] | None = None


@dataclass(frozen=True)
class Law:
    """A property between functions, tried on a device: returns None when it holds, else why not."""

    name: str
    broken: Callable[[str], str | None]


@dataclass(frozen=True)
class Family:
    """A folder of kernels: its functions, its cases and the laws between its functions."""

    name: str
    ops: Mapping[str, Op]
    cases: tuple[Case, ...]
    laws: tuple[Law, ...] = field(default=())


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
