"""Plant one fault at a time in the device code, run the proofs, print which turned red.

TRITON_INTERPRET=1 python planted_script.py FOLDER FAULTS.json
"""

import importlib.util
import json
import sys
from pathlib import Path

from kernels.common import interpreter, proofs
from kernels.common.case import Case
from kernels.norm import cases, kernel

interpreter.install()
folder, faults = Path(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text())
SOURCE = Path(kernel.__file__).read_text()


def plant(name: str, old: str, new: str) -> None:
    """Put a kernel module with `old` replaced by `new` where op.py imports it from."""
    assert old in SOURCE, f"{name}: nothing to plant it in"
    path = folder / f"{name.replace(' ', '_')}.py"
    path.write_text(SOURCE.replace(old, new))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules["kernels.norm.kernel"] = module


def red_proofs(case: Case) -> list[str]:
    op = cases.FAMILY.ops[case.op]
    return [name for name, proof in proofs.DEVICE_CODE.items() if proof(op, case, "cpu")]


SMALL = {
    "rms_norm": cases.rms_case(4, 100),
    "rms_norm tiny": cases.rms_case(4, 100, cases.domain.TINY),
    "add_rms_norm": cases.add_case(4, 100),
    "gated_rms_norm": cases.gated_case(4, 3),
    "gated_rms_norm fp32": cases.gated_case(4, 3, fp32_weight=True),
}
result = {}
for fault in faults:
    plant(fault["name"], fault["old"], fault["new"])
    result[fault["name"]] = red_proofs(SMALL[fault["case"]])
json.dump(result, sys.stdout)
