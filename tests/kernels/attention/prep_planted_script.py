"""Plant one fault at a time in the device code, run the proofs, print which turned red.

TRITON_INTERPRET=1 python prep_planted_script.py FOLDER FAULTS.json
"""

from kernels.attention import prep_cases, prep_laws
from kernels.common import domain, proofs
from tests.kernels.planting import report

PROOFS = ("bits of the model", "within tolerance of fp64")
SMALL = {
    "tree": prep_cases.prep_case(4, (2, 1), width=64, turned=16),
    "coded": prep_cases.prep_case(4, (2, 2), width=64, turned=16, coded=True),
    "tiny": prep_cases.prep_case(2, (2, 1), domain.TINY, width=64, turned=16),
}
LAWS = {law.name: law for law in prep_laws.LAWS}


def red(subject: str) -> list[str]:
    """Run the law of a name, or two proofs of a small case."""
    if subject in LAWS:
        return ["law"] if LAWS[subject].broken("cpu") else []
    case = SMALL[subject]
    op = prep_cases.OPS[case.op]
    return [name for name in PROOFS if proofs.DEVICE_CODE[name](op, case, "cpu")]


report(("kernels.attention.prep_kernel",), red)
