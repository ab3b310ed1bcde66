"""Run each kernel once on small problems, for compute-sanitizer to watch. Needs a GPU.

    for tool in memcheck racecheck synccheck initcheck; do
        PYTORCH_NO_CUDA_MEMORY_CACHING=1 \
            compute-sanitizer --tool $tool --error-exitcode 1 python scripts/sanitize.py linear
    done

Without a family all of them run. Without torch's memory cache every tensor is an allocation of its
own, so that a read or write beside one is seen. `qwen38 check` proves the results; this looks at
nothing but memory.
"""

import argparse
import sys
from itertools import groupby
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

from kernels import FAMILY_MODULES
from kernels.common.case import Case
from kernels.common.family import Family, load_families
from kernels.common.proofs import SEED

MOST_BYTES = 8 << 20
"""Of a case's tensors: a watched kernel runs some hundred times slower."""


def main() -> None:
    """Run the families that are named."""
    parser = argparse.ArgumentParser(description="Run each kernel once on small problems.")
    parser.add_argument("families", nargs="*", metavar="FAMILY", help=", ".join(FAMILY_MODULES))
    names = parser.parse_args().families or tuple(FAMILY_MODULES)
    if unknown := sorted(set(names) - set(FAMILY_MODULES)):
        parser.error(f"no kernel family {', '.join(unknown)}; there is {', '.join(FAMILY_MODULES)}")
    if not torch.cuda.is_available():
        sys.exit("sanitize: no CUDA device is here; run it on a machine with a GPU")
    for family in load_families(names):
        for case in small_cases(family):
            inputs, outputs = case.draw(SEED, "cuda"), case.poisoned_outputs("cuda")
            family.ops[case.op].run(inputs, outputs.tensors)
            torch.cuda.synchronize()
            if fault := outputs.written_outside():
                sys.exit(f"{case.op} {case.label}: {fault}")
            print(case.op, case.label, flush=True)


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


if __name__ == "__main__":
    main()
