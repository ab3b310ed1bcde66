"""The checks are no ornament: a fault of the plain functions turns a law red.

Those of the device code can be planted; on a GPU `mixer_device_faults.py` shows that each is seen.
"""

import types
from pathlib import Path

import pytest

from kernels.delta import walk, walk_reference
from kernels.mixer import launch
from kernels.mixer.laws import LAWS
from kernels.mixer.tile import macros
from tests.kernels.device_faults import can_be_planted
from tests.kernels.mixer import mixer_device_faults

REFERENCE = Path(walk_reference.__file__).read_text()


@pytest.mark.parametrize(
    ("old", "new", "is_red"),
    [
        ("walked = state.clone()", "walked = state.clone()", False),
        ("(slot := int(restores[row])) >= 0", "False", True),
        ("pending_rows[: int(num_pending)].tolist()", "range(int(num_pending))", True),
        ("record.u[half, row] = change", "record.u[half, row] = change.bfloat16()", True),
    ],
)
def test_a_fault_of_the_plain_walk_turns_the_law_of_single_steps_red(monkeypatch, old, new, is_red):
    assert old in REFERENCE, "nothing to plant it in"
    module = types.ModuleType("planted")
    exec(compile(REFERENCE.replace(old, new), "planted", "exec"), module.__dict__)
    monkeypatch.setattr(walk, "delta_walk_reference", module.delta_walk_reference)
    law = next(one for one in LAWS if "single steps" in one.name)
    assert bool(law.broken("cpu")) == is_red


@pytest.mark.parametrize("fault", mixer_device_faults.FAULTS, ids=lambda fault: fault[0])
def test_a_fault_of_the_device_code_can_be_planted(fault):
    assert can_be_planted(launch.SOURCE, fault, macros(5, 5120, gated=True))
