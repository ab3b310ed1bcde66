"""Plant one fault at a time in the device code, run the checks, print which turned red.

TRITON_INTERPRET=1 python prefill_planted_script.py FOLDER FAULTS.json
"""

from kernels.common import proofs
from kernels.delta.prefill_cases import OPS
from kernels.delta.prefill_problems import ALIKE, NO_DECAY, REPEATED, WHOLE, prefill_case
from tests.kernels.planting import report

CASES = (
    prefill_case(70, 1, 1),
    prefill_case(65, 1, 2, keys=ALIKE, betas=WHOLE),
    prefill_case(64, 1, 1, keys=REPEATED, betas=WHOLE, gates=NO_DECAY),
)


def red(_subject: str) -> list[str]:
    """What the truth says of each case that is wrong."""
    found = [proofs.within_tolerance(OPS["delta_prefill"], case, "cpu") for case in CASES]
    return [sentence for sentence in found if sentence]


report(("kernels.delta.prefill_kernel",), red)
