"""Launch every case of every family on a GPU that counts launches; prints them, and what failed.

    python launch_script.py MAJOR.MINOR [FUNCTION]

With FUNCTION, "module:name", that one is gone: a check of what this script notices.
"""

import json
import sys
import traceback
from collections import Counter
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

import torch  # noqa: E402

from kernels.common.family import load_families  # noqa: E402
from kernels.linear import problems, skinny  # noqa: E402
from tests.fakes.launching import pretend  # noqa: E402

MOST_BYTES = 40 << 20
"""Larger cases launch what smaller ones do."""


def main(capability: tuple[int, int], gone: str = "") -> None:
    families = load_families()
    launches = pretend(capability)
    problems.is_spread_on = lambda _device: skinny.wants_spread(capability)
    if gone:
        module, name = gone.split(":")
        delattr(import_module(module), name)
    failed: Counter[str] = Counter()
    for family in families:
        for case in family.cases:
            if case.read_bytes + case.written_bytes > MOST_BYTES:
                continue
            try:
                inputs = case.draw(1, "cpu")
                outputs = {
                    one.name: torch.zeros(one.shape(case.sizes), dtype=one.dtype)
                    for one in case.outputs
                }
                family.ops[case.op].run(inputs, outputs)
            except Exception as error:  # noqa: BLE001  whatever a launcher raises is told
                last = traceback.extract_tb(error.__traceback__)[-1]
                place = f"{Path(last.filename).name}:{last.lineno}"
                failed[f"{case.op}: {type(error).__name__} {error} ({place})"] += 1
    print(json.dumps({"launches": launches, "failed": failed}))  # noqa: T201


if __name__ == "__main__":
    major, minor = sys.argv[1].split(".")
    main((int(major), int(minor)), *sys.argv[2:])
