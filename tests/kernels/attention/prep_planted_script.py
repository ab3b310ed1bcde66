"""Plant one fault at a time in the device code, run the proofs, print which turned red.

TRITON_INTERPRET=1 python prep_planted_script.py FOLDER FAULTS.json
"""

import importlib.util
import json
import sys
from pathlib import Path

from kernels.attention import prep_cases, prep_kernel, prep_laws
from kernels.common import domain, interpreter, proofs

interpreter.install()
folder, faults = Path(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text())
SOURCE = Path(prep_kernel.__file__).read_text()
PROOFS = ("bits of the model", "within tolerance of fp64")


def plant(name: str, old: str, new: str) -> None:
    """Put a kernel module with `old` replaced by `new` where prep.py imports it from."""
    assert old in SOURCE, f"{name}: nothing to plant it in"
    path = folder / f"{name.replace(' ', '_')}.py"
    path.write_text(SOURCE.replace(old, new))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules["kernels.attention.prep_kernel"] = module


SMALL = {
    "tree": prep_cases.prep_case(4, (2, 1), width=64, turned=16),
    "tiny": prep_cases.prep_case(2, (2, 1), domain.TINY, width=64, turned=16),
}
LAWS = {law.name: law for law in prep_laws.LAWS}
result = {}
for fault in faults:
    plant(fault["name"], fault["old"], fault["new"])
    if fault["case"] in LAWS:
        result[fault["name"]] = ["law"] if LAWS[fault["case"]].broken("cpu") else []
        continue
    case = SMALL[fault["case"]]
    op = prep_cases.OPS[case.op]
    result[fault["name"]] = [name for name in PROOFS if proofs.DEVICE_CODE[name](op, case, "cpu")]
json.dump(result, sys.stdout)
