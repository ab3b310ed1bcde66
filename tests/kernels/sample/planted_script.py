"""Plant one fault at a time in the device code, run proofs and laws, print which turned red.

TRITON_INTERPRET=1 python planted_script.py FOLDER FAULTS.json
"""

import importlib
import importlib.util
import json
import sys
from pathlib import Path

from kernels.common import interpreter, proofs

interpreter.install()
folder, faults = Path(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text())
KERNELS = tuple(f"kernels.sample.{name}_kernel" for name in
                ("logits", "noise", "top", "search", "draw", "accept"))  # fmt: skip
SOURCES = {name: Path(importlib.import_module(name).__file__).read_text() for name in KERNELS}

from kernels.sample import cases  # noqa: E402  after the interpreter


def plant(name: str, module_name: str, old: str, new: str) -> None:
    """Put a module with `old` replaced by `new` where the launches import it from."""
    module_name = f"kernels.sample.{module_name}_kernel"
    assert old in SOURCES[module_name], f"{name}: nothing to plant it in"
    path = folder / f"{name.replace(' ', '_')}.py"
    path.write_text(SOURCES[module_name].replace(old, new))
    for kernel in KERNELS:
        sys.modules.pop(kernel, None)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules[module_name] = module


def red(subject: str) -> list[str]:
    """Run the law of a name, or the truth's proof of a small case of "sampling domain rows V"."""
    laws = {law.name: law for law in cases.FAMILY.laws}
    if subject in laws:
        return ["law"] if laws[subject].broken("cpu") else []
    op, values, rows, num_logits = subject.split()
    case = cases.sample_case(op, int(rows), int(num_logits), getattr(cases, values))
    function = cases.FAMILY.ops[op]
    return ["truth"] if proofs.within_tolerance(function, case, "cpu") else []


result = {}
for fault in faults:
    plant(fault["name"], fault["module"], fault["old"], fault["new"])
    result[fault["name"]] = red(fault["subject"])
json.dump(result, sys.stdout)
