"""Plant one fault at a time in the device code, run the proofs, print which turned red.

TRITON_INTERPRET=1 python conv_planted_script.py FOLDER FAULTS.json
"""

from kernels.common import domain, proofs
from kernels.conv import cases, laws, problems
from tests.kernels.planting import report

PROOFS = ("bits of the model", "within tolerance of fp64")
ROWS_LAW = laws.LAWS[0]
laws.CPU_ROWS = (1, 3)

HEADS = {"heads": (1, 2), "width": 16}
SMALL = {
    "gates": problems.gates_case(5, num_pending=2, **HEADS),
    "product": problems.gates_case(5, num_inputs=1100, **HEADS),
    "gates tiny": problems.gates_case(2, x=domain.TINY, **HEADS),
    "prefill": problems.prefill_case(19, **HEADS),
    "fold": problems.fold_case(2, 64, 2, 1),
}


def red(subject: str) -> list[str]:
    """Run the law of rows, or two proofs of a small case."""
    if subject == "rows law":
        return ["law"] if ROWS_LAW.broken("cpu") else []
    case = SMALL[subject]
    op = cases.FAMILY.ops[case.op]
    return [name for name in PROOFS if proofs.DEVICE_CODE[name](op, case, "cpu")]


report(("kernels.conv.gates_kernel", "kernels.conv.kernel", "kernels.conv.prefill_kernel"), red)
