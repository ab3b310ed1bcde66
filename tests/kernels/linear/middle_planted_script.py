"""Plant one fault at a time in the device code, run the proofs, print which turned red.

TRITON_INTERPRET=1 python middle_planted_script.py FOLDER FAULTS.json
"""

import importlib.util
import json
import sys
from pathlib import Path

from middle_checks import (
    SPREAD,
    WIDTHS,
    Verdicts,
    prove_expansion,
    prove_prefill,
    prove_product,
    prove_rounding,
)

from kernels.common import interpreter
from kernels.linear import (
    expand_kernel,
    middle_kernel,
    middle_operand,
    nvfp4_steps,
    prefill_fp8_kernel,
    requantise_kernel,
)
from kernels.linear.middle_tile import MiddleTile
from kernels.linear.prefill_fp8 import PrefillTile

interpreter.install()
folder, faults = Path(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text())
MODULES = (middle_operand, middle_kernel, nvfp4_steps, expand_kernel)
OPTION = (nvfp4_steps, prefill_fp8_kernel, requantise_kernel)
"""What is planted in: the module of the others first, so that they import its faults."""

TILE = MiddleTile(64, 16, 4, 2)
BY_SUM = MiddleTile(64, 16, 4, 2, fold_scale=False)
SPLIT = MiddleTile(64, 16, 4, 2, splits=3, whole=64)
PRODUCTS = {
    "stored": ("nvfp4", 6, 75, WIDTHS["nvfp4"], TILE),
    "spread": (SPREAD, 6, 75, WIDTHS[SPREAD], TILE),
    "block": ("fp8_block", 6, 140, WIDTHS["fp8_block"], TILE),
    "block by sum": ("fp8_block", 6, 140, WIDTHS["fp8_block"], BY_SUM),
    "row": ("e4m3_row", 6, 75, WIDTHS["e4m3_row"], TILE),
    "split": (SPREAD, 6, 100, 384, SPLIT),
}
EXPANSIONS = {
    "expand stored": ("nvfp4", 75, WIDTHS["nvfp4"]),
    "expand spread": (SPREAD, 75, WIDTHS[SPREAD]),
    "expand block": ("fp8_block", 140, WIDTHS["fp8_block"]),
    "expand row": ("e4m3_row", 75, WIDTHS["e4m3_row"]),
}
FP8_TILE = PrefillTile(16, 64, 4, 2)
PREFILLS = {
    "fp8 4 bits": ("nvfp4", 6, 75, WIDTHS["nvfp4"], FP8_TILE),
    "fp8 block": ("fp8_block", 6, 140, WIDTHS["fp8_block"], FP8_TILE),
}
ROUNDINGS = {"round": ("nvfp4", 20, WIDTHS["nvfp4"]), "round spread": (SPREAD, 20, 2320)}


def sources_of(modules) -> dict[str, str]:
    return {module.__name__: Path(module.__file__).read_text() for module in modules}


SOURCES, OPTION_SOURCES = sources_of(MODULES), sources_of(OPTION)


def plant(name: str, case: str, old: str, new: str) -> None:
    """Put modules with `old` replaced by `new` where the products import them from."""
    sources = OPTION_SOURCES if case in PREFILLS or case in ROUNDINGS else SOURCES
    places = sum(source.count(old) for source in sources.values())
    assert places == 1, f"{name}: {places} places to plant it in, expected one"
    for module, source in sources.items():
        path = folder / f"{name.replace(' ', '_')}_{module.rpartition('.')[2]}.py"
        path.write_text(source.replace(old, new))
        spec = importlib.util.spec_from_file_location(path.stem, path)
        planted = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(planted)
        sys.modules[module] = planted


def proofs_of(case: str) -> Verdicts:
    """Run all proofs of a case."""
    if case in PRODUCTS:
        return prove_product(*PRODUCTS[case])
    if case in PREFILLS:
        return prove_prefill(*PREFILLS[case])
    if case in ROUNDINGS:
        return prove_rounding(*ROUNDINGS[case])
    return prove_expansion(*EXPANSIONS[case])


result = {}
for fault in faults:
    plant(fault["name"], fault["case"], fault["old"], fault["new"])
    verdicts = proofs_of(fault["case"])
    result[fault["name"]] = [proof for proof, found in verdicts.items() if found]
json.dump(result, sys.stdout)
