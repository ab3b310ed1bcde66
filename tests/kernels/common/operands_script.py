"""Plant one fault at a time in what writes operands, try its users' laws, print which turned red.

TRITON_INTERPRET=1 python operands_script.py FOLDER FAULTS.json
"""

from kernels.linear.laws import LAWS
from kernels.norm.cases import FAMILY
from tests.kernels.planting import report

TRIED = [law for law in (*FAMILY.laws, *LAWS) if "operands" in law.name]
MODULES = ("kernels.common.store_operands", "kernels.norm.kernel", "kernels.linear.silu_mul_kernel")


def red(_subject: str) -> list[str]:
    """Try the laws."""
    return [law.name for law in TRIED if law.broken("cpu")]


report(MODULES, red)
