"""Plant faults in device code, one at a time, in a process that interprets it.

A script says which modules hold the code and what is tried; the test beside it names the faults and
runs the script by the fixture `plant`.
"""

import importlib
import importlib.util
import json
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from kernels.common import interpreter


def report(modules: Sequence[str], red: Callable[[str], list[str]]) -> None:
    """Read FOLDER and FAULTS.json from the command line; print what turned red, by fault.

    Args:
        modules: full names of kernel modules; a fault that names none is planted in the first.
        red: a fault's subject -> what is red of it.
    """
    interpreter.install()
    folder, faults = Path(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text())
    sources = {name: Path(importlib.import_module(name).__file__).read_text() for name in modules}
    found: dict[str, list[str]] = {}
    for fault in faults:
        _plant(folder, sources, fault)
        found[fault["name"]] = red(fault["subject"])
    json.dump(found, sys.stdout)


def is_seen(red: Collection[str], proof: str | None) -> bool:
    """Whether what must see a fault turned red; where nothing was changed, whether nothing did."""
    return not red if proof is None else proof in red


def _plant(folder: Path, sources: Mapping[str, str], fault: Mapping[str, str]) -> None:
    """Put a module with `old` replaced by `new` where launches import it from."""
    name, module_name = fault["name"], fault.get("module", next(iter(sources)))
    assert fault["old"] in sources[module_name], f"{name}: nothing to plant it in"
    path = folder / f"{name.replace(' ', '_')}.py"
    path.write_text(sources[module_name].replace(fault["old"], fault["new"]))
    for one in sources:
        sys.modules.pop(one, None)  # those that import the planted module are imported anew
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules[module_name] = module
