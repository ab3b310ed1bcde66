"""Plant one fault at a time in how operands reach a product, on a GPU, and print what turns red.

PYTHONPATH=. python tests/kernels/linear/operands_device_faults.py

`test_operands_planted_faults.py` keeps the list true to the source where there is no GPU.
"""

import sys
from functools import partial

from kernels.linear import launch_laws, skinny_launch
from kernels.linear.launch_laws import LAUNCH_LAWS
from tests.kernels.device_faults import Fault, try_all
from tests.kernels.linear.planting import plant

LAW = next(law for law in LAUNCH_LAWS if "operands" in law.name)

NUM_INPUTS, ROWS = 5120, (3, 16, 30)
"""What the law is tried on here."""

FAULTS: list[Fault] = [
    ("nothing changed", "return !any;", "return !any;", None),
    ("factors not looked at", "return !any;", "return true;", LAW.name),
    ("the last rows' factors alone", "any |= range_factor", "any = range_factor", LAW.name),
    ("the first rows for all", "(r * p.steps + begin)", "(begin)", LAW.name),
    ("the first slice for all", "(r * p.steps + begin)", "(r * p.steps)", LAW.name),
    ("copies one over the other", "shared_x + r * LONGEST * STEP_VECTORS), from",
     "shared_x), from", LAW.name),
    ("a step short", "const int bytes = (end - begin) * STEP_VECTORS * 16;",
     "const int bytes = (end - begin - 1) * STEP_VECTORS * 16;", LAW.name),
]  # fmt: skip


def broken(_wanted: str | None) -> list[str]:
    """The law's name where it is red."""
    return [LAW.name] if LAW.broken("cuda") else []


if __name__ == "__main__":
    launch_laws.OPERAND_INPUTS, launch_laws.OPERAND_ROWS = (NUM_INPUTS,), ROWS
    sys.exit(
        try_all(FAULTS, skinny_launch.SOURCE, list, partial(plant, skinny_launch.SOURCE), broken)
    )
