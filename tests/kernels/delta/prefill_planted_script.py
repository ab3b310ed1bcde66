"""Plant one fault at a time in the device code, run the checks, print which turned red.

TRITON_INTERPRET=1 python prefill_planted_script.py FOLDER FAULTS.json
"""

import importlib.util
import json
import sys
from pathlib import Path

from kernels.common import interpreter, proofs
from kernels.delta import prefill_kernel
from kernels.delta.prefill_cases import OPS
from kernels.delta.prefill_problems import ALIKE, NO_DECAY, REPEATED, WHOLE, prefill_case

interpreter.install()
folder, faults = Path(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text())
SOURCE = Path(prefill_kernel.__file__).read_text()
CASES = (
    prefill_case(70, 1, 1),
    prefill_case(65, 1, 2, keys=ALIKE, betas=WHOLE),
    prefill_case(64, 1, 1, keys=REPEATED, betas=WHOLE, gates=NO_DECAY),
)


def plant(name: str, old: str, new: str) -> None:
    """Put a kernel module with `old` replaced by `new` where prefill.py imports it from."""
    assert old in SOURCE, f"{name}: nothing to plant it in"
    path = folder / f"{name.replace(' ', '_')}.py"
    path.write_text(SOURCE.replace(old, new))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules["kernels.delta.prefill_kernel"] = module


result = {}
for fault in faults:
    plant(fault["name"], fault["old"], fault["new"])
    found = [proofs.within_tolerance(OPS["delta_prefill"], case, "cpu") for case in CASES]
    result[fault["name"]] = [sentence for sentence in found if sentence]
json.dump(result, sys.stdout)
