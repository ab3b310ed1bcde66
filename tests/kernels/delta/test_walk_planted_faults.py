"""The checks are no ornament: every fault planted in the plain walk turns a proof or a law red."""

import types
from pathlib import Path

import pytest
import torch

from kernels.common import proofs
from kernels.delta import fold, team, tile, walk, walk_launch, walk_reference
from kernels.delta.cases import FAMILY
from kernels.delta.laws import LAWS
from kernels.delta.problems import fold_case, walk_case
from tests.kernels import device_faults
from tests.kernels.delta import team_device_faults, walk_device_faults
from tests.kernels.planting import is_seen

SOURCE = Path(walk_reference.__file__).read_text()
TRUTH = "within tolerance of fp64"
CHAINS, TREES, FOLDS, NAN, _ = (law.name for law in LAWS if not law.cuda_only)

FOLD_FIRST = """    delta_fold_reference(state, record, parity, num_pending, pending_rows)
    half = int(parity)
    walked"""

FAULTS = [
    # name, what the source says, what it is made to say, a proof or law that must turn red
    ("nothing changed", "walked = state.clone()", "walked = state.clone()", None),
    ("the state walked in place", "walked = state.clone()", "walked = state", TRUTH),
    ("pending rows forgotten", FOLD_FIRST, "    half = int(parity)\n    walked", TRUTH),
    ("the last pending row forgotten", "[: int(num_pending)]", "[: int(num_pending) - 1]", TRUTH),
    ("pending rows in another order", "[: int(num_pending)].tolist()",
     "[: int(num_pending)].flip(0).tolist()", TRUTH),
    ("pending rows counted from row 0", "pending_rows[: int(num_pending)].tolist()",
     "range(int(num_pending))", TRUTH),
    ("the half that is written folded", "half = 1 - int(parity)", "half = int(parity)", TRUTH),
    ("the fold forgets to decay", "    state *= record.decay[half, row][:, None, None]", "", TRUTH),
    ("the fold rounds once", "record.u[half, row][:, None, :]",
     "record.u[half, row].double()[:, None, :]", CHAINS),
    ("the walk forgets to decay", "walked *= record.decay[half, row][:, None, None]", "pass",
     TRUTH),
    ("read before the decay", "seen = (walked * k)",
     "seen = (walked / record.decay[half, row][:, None, None] * k)", TRUTH),
    ("beta forgotten", " * beta[row][:, None]", "", TRUTH),
    ("u rounded to bf16", "record.u[half, row] = change", "record.u[half, row] = change.bfloat16()",
     CHAINS),
    ("u of a row not written", "record.u[half, row] = change", "pass", TRUTH),
    ("u written to the other half", "record.u[half, row] = change",
     "record.u[1 - half, row] = change", TRUTH),
    ("the output of the state before", "out[row] = (walked", "out[row] = (state", TRUTH),
    ("heads share keys in turn", "repeat_interleave(state.shape[0] // keys.shape[0], 0)",
     "repeat(state.shape[0] // keys.shape[0], 1)", TRUTH),
    ("branches go on from the row before", "(slot := int(restores[row])) >= 0", "False", TREES),
    ("a kept state is walked on", "kept[slot].clone()", "kept[slot]", TREES),
    ("the state before a branch is kept", "kept[slot] = walked.clone()", "kept[slot] = state",
     TREES),
    ("the gate forgotten", "if gate is None else", "if True else", TRUTH),
    ("a NaN reaches other columns", "seen = (walked * k).sum(-2)",
     "seen = (walked * k).sum(-2); seen = seen + 0 * seen.sum(-1, keepdim=True)", NAN),
]  # fmt: skip


def red_proofs() -> set[str]:
    """What turns red on a walk of a comb with pending rows and of a bush, a fold, and the laws."""
    walks = [walk_case(9, 2, 4, shape=shape, pending=3, parity=1, key_dim=32, value_dim=16)
             for shape in ("comb", "bush")]  # fmt: skip
    walks.append(walk_case(9, 2, 4, key_dim=32, value_dim=16, weight=torch.bfloat16))
    cases = [*walks, fold_case(2, 2, 4, 3, key_dim=32, value_dim=16)]
    red = {TRUTH for case in cases
           if proofs.within_tolerance(FAMILY.ops[case.op], case, "cpu")}  # fmt: skip
    return red | {law.name for law in LAWS if not law.cuda_only and law.broken("cpu")}


@pytest.mark.parametrize(("old", "new", "proof"), [one[1:] for one in FAULTS],
                         ids=[one[0] for one in FAULTS])  # fmt: skip
def test_a_planted_fault_turns_its_proof_red(monkeypatch, old, new, proof):
    assert old in SOURCE, "nothing to plant it in"
    planted = types.ModuleType("planted")
    exec(compile(SOURCE.replace(old, new), "planted", "exec"), planted.__dict__)
    monkeypatch.setattr(walk, "delta_walk_reference", planted.delta_walk_reference)
    monkeypatch.setattr(fold, "delta_fold_reference", planted.delta_fold_reference)
    assert is_seen(red_proofs(), proof)


DEVICE_FAULTS = [
    *((walk_launch.SOURCE, tile, fault) for fault in walk_device_faults.FAULTS),
    *((walk_launch.TEAM_SOURCE, team, fault) for fault in team_device_faults.FAULTS),
]


@pytest.mark.parametrize(
    ("path", "launch", "fault"),
    DEVICE_FAULTS,
    ids=[f"{path.stem}: {one[0]}" for path, _, one in DEVICE_FAULTS],
)
def test_a_fault_of_the_device_code_can_be_planted(path, launch, fault):
    """On a GPU the two scripts show that each is seen."""
    assert device_faults.can_be_planted(path, fault, launch.macros(128, 128, gated=True))
