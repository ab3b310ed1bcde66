"""Plant one fault at a time in the device code, run proofs and laws, print which turned red.

TRITON_INTERPRET=1 python planted_script.py FOLDER FAULTS.json
"""

from kernels.common import proofs
from kernels.head import cases
from tests.kernels.planting import report

LAWS = {law.name: law for law in cases.FAMILY.laws}


def red(subject: str) -> list[str]:
    """Run the law of a name, or the proofs of a small case of "function domain"."""
    if subject in LAWS:
        return ["law"] if LAWS[subject].broken("cpu") else []
    op, values = subject.split()
    case = cases.case_of(op, 3, 2100, getattr(cases, values), k=cases.TOP if "top" in op else 0)
    function = cases.FAMILY.ops[op]
    return [name for name, proof in proofs.DEVICE_CODE.items() if proof(function, case, "cpu")]


report(("kernels.common.ordered_keys", "kernels.head.kernel"), red)
