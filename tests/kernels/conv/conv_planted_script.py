"""Plant one fault at a time in the device code, run the proofs, print which turned red.

TRITON_INTERPRET=1 python conv_planted_script.py FOLDER FAULTS.json
"""

import importlib.util
import json
import sys
from pathlib import Path

from kernels.common import domain, interpreter, proofs
from kernels.conv import cases, kernel, laws, problems

interpreter.install()
folder, faults = Path(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text())
SOURCE = Path(kernel.__file__).read_text()
ROWS_LAW = laws.LAWS[0]
laws.CPU_ROWS = (1, 3)


def plant(name: str, old: str, new: str) -> None:
    """Put a kernel module with `old` replaced by `new` where op.py imports it from."""
    assert old in SOURCE, f"{name}: nothing to plant it in"
    path = folder / f"{name.replace(' ', '_')}.py"
    path.write_text(SOURCE.replace(old, new))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules["kernels.conv.kernel"] = module


HEADS = {"heads": (1, 2), "width": 16}
SMALL = {
    "gates": problems.gates_case(5, num_pending=2, **HEADS),
    "gates tiny": problems.gates_case(2, x=domain.TINY, **HEADS),
    "prefill": problems.prefill_case(19, **HEADS),
    "fold": problems.fold_case(2, 64, 2, 1),
}
result = {}
for fault in faults:
    plant(fault["name"], fault["old"], fault["new"])
    if fault["case"] == "rows law":
        result[fault["name"]] = ["law"] if ROWS_LAW.broken("cpu") else []
        continue
    case = SMALL[fault["case"]]
    tried = {
        name: proofs.DEVICE_CODE[name] for name in ("bits of the model", "within tolerance of fp64")
    }
    op = cases.FAMILY.ops[case.op]
    result[fault["name"]] = [name for name, proof in tried.items() if proof(op, case, "cpu")]
json.dump(result, sys.stdout)
