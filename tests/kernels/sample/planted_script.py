"""Plant one fault at a time in the device code, run proofs and laws, print which turned red.

TRITON_INTERPRET=1 python planted_script.py FOLDER FAULTS.json
"""

from kernels.common import proofs
from kernels.sample import cases
from tests.kernels.planting import report

FILES = ("logits", "noise", "top", "search", "draw", "accept")
LAWS = {law.name: law for law in cases.FAMILY.laws}


def red(subject: str) -> list[str]:
    """Run the law of a name, or the truth's proof of a small case of "sampling domain rows V"."""
    if subject in LAWS:
        return ["law"] if LAWS[subject].broken("cpu") else []
    op, values, rows, num_logits = subject.split()
    case = cases.sample_case(op, int(rows), int(num_logits), getattr(cases, values))
    function = cases.FAMILY.ops[op]
    return ["truth"] if proofs.within_tolerance(function, case, "cpu") else []


report(tuple(f"kernels.sample.{name}_kernel" for name in FILES), red)
