"""Plant one fault at a time in the device code, run the proofs, print which turned red.

TRITON_INTERPRET=1 python planted_script.py FOLDER FAULTS.json
"""

from kernels.common import proofs
from kernels.norm import cases
from tests.kernels.planting import report

SMALL = {
    "rms_norm": cases.rms_case(4, 100),
    "rms_norm tiny": cases.rms_case(4, 100, cases.domain.TINY),
    "add_rms_norm": cases.add_case(4, 100),
    "gated_rms_norm": cases.gated_case(4, 3),
    "gated_rms_norm fp32": cases.gated_case(4, 3, fp32_weight=True),
}


def red(subject: str) -> list[str]:
    """Run all proofs of a small case."""
    case = SMALL[subject]
    op = cases.FAMILY.ops[case.op]
    return [name for name, proof in proofs.DEVICE_CODE.items() if proof(op, case, "cpu")]


report(("kernels.norm.kernel",), red)
