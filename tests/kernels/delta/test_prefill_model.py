"""The model of the kernels' splits and blocks is within the bounds, and faults in it are seen."""

import types
from functools import partial
from pathlib import Path

import pytest
import torch

from kernels.common import proofs
from kernels.common.family import Op
from kernels.delta import prefill_launch, prefill_model
from kernels.delta.prefill_cases import CASES
from kernels.delta.prefill_laws import OUT_ERROR, STATE_ERROR, relative_length
from kernels.delta.prefill_problems import ALIKE, NO_DECAY, REPEATED, WHOLE, prefill_case
from kernels.delta.prefill_tile import BY_FOUR_WARPS, BY_ONE_WARP
from kernels.delta.prefill_truth import truth_prefill
from tests.kernels import device_faults
from tests.kernels.delta import prefill_device_faults

SOURCE = Path(prefill_model.__file__).read_text()

FAULTS = [
    # name, what the source says, what it is made to say
    ("nothing changed", "state_head, state_tail = parts(state)",
     "state_head, state_tail = parts(state)"),
    ("keys meet the state in bf16", "k[:, n] @ state_tail + k[:, n] @ state_head",
     "k[:, n] @ state_head"),
    ("queries meet the state in bf16", "q[:, n] @ state_tail + q[:, n] @ state_head",
     "q[:, n] @ state_head"),
    ("writes lose their tail", " + across @ wrote_tail", ""),
    ("products of one term", "(x_head @ y_tail + x_tail @ y_head) + ", ""),
    ("products lose the left tail", "x_head @ y_tail + x_tail @ y_head", "x_head @ y_tail"),
    ("products lose the right tail", "x_head @ y_tail + x_tail @ y_head", "x_tail @ y_head"),
    ("state not faded", "fade[:, n, None, None] * state", "state"),
    ("diagonal blocks not solved", "range(SIDE - 1)", "range(SIDE // 2)"),
    ("blocks below not solved", "range(j + 1, BLOCKS)", "range(j + 1, BLOCKS - 1)"),
    ("blocks met by the first one alone", "above = slice(SIDE * j, SIDE * i)",
     "above = slice(SIDE * j, SIDE * (j + 1))"),
    ("a token sees itself written twice", "invert(lower.tril(-1))", "invert(lower.tril())"),
    ("a token does not see itself", "dtype=torch.bool).tril()", "dtype=torch.bool).tril(-1)"),
    ("keys not of length one", "k_scale = (k.square().sum(-1) + LENGTH_EPS)",
     "k_scale = (1.01 * k.square().sum(-1) + LENGTH_EPS)"),
    ("beta only for columns", "(-beta * k_scale)[..., :, None]", "(-k_scale)[..., :, None]"),
    ("sums of g by pairs alone", "while step < sums.shape[-1]:", "while False:"),
    ("the second of a pair faded as the first", "(before + first, sums)",
     "(before + first, before + first)"),
]  # fmt: skip

RED_CASES = (
    prefill_case(70, 1, 1),
    prefill_case(65, 1, 2, keys=ALIKE, betas=WHOLE),
    prefill_case(64, 1, 1, keys=REPEATED, betas=WHOLE, gates=NO_DECAY),
)


def run(model, inputs, outputs) -> None:
    for name, tensor in model(inputs).items():
        outputs[name].copy_(tensor)


def red(model, case) -> str | None:
    return proofs.within_tolerance(Op(partial(run, model), truth_prefill), case, "cpu")


@pytest.mark.parametrize(
    "case", [case for case in CASES if not case.cuda_only], ids=lambda case: case.label
)
def test_model_is_within_the_bound(case):
    assert red(prefill_model.model_prefill, case) is None


@pytest.mark.parametrize("case", RED_CASES, ids=lambda case: case.label)
def test_a_heads_model_strays_as_little_as_the_law_says(case):
    inputs = case.draw(3, "cpu")
    got, truth = prefill_model.model_prefill(inputs), truth_prefill(inputs)
    assert relative_length(got["out"], truth["out"], (0, 2)) <= OUT_ERROR
    assert relative_length(got["state_out"], truth["state_out"], (1, 2)) <= STATE_ERROR


@pytest.mark.parametrize(("name", "old", "new"), FAULTS, ids=[one[0] for one in FAULTS])
def test_a_planted_fault_is_seen(name, old, new):
    assert SOURCE.count(old) == 1, "nothing to plant it in"
    planted = types.ModuleType("planted")
    exec(compile(SOURCE.replace(old, new), "planted", "exec"), planted.__dict__)
    is_seen = any(red(planted.model_prefill, case) for case in RED_CASES)
    assert is_seen == (name != "nothing changed")


def test_sums_of_g_are_those_of_a_chunk():
    g = -torch.rand(3, 2, 64, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(
        prefill_model.running_sum(g).double(), g.double().cumsum(-1), rtol=2.0**-20, atol=0
    )


DEVICE_FAULTS = [
    (path, macros, fault)
    for path, macros, faults in (
        (
            prefill_launch.CHUNK_SOURCE,
            prefill_device_faults.CHUNK_MACROS,
            prefill_device_faults.CHUNK_FAULTS,
        ),
        (prefill_launch.WALK_SOURCE, BY_ONE_WARP.macros(), prefill_device_faults.WALK_FAULTS),
        (
            prefill_launch.WGMMA_WALK_SOURCE,
            BY_FOUR_WARPS.macros(),
            prefill_device_faults.WGMMA_FAULTS,
        ),
    )
    for fault in faults
]


@pytest.mark.parametrize(
    ("path", "macros", "fault"),
    DEVICE_FAULTS,
    ids=[f"{path.stem}: {one[0]}" for path, _, one in DEVICE_FAULTS],
)
def test_a_fault_of_the_device_code_can_be_planted(path, macros, fault):
    """On a GPU the script shows that each is seen."""
    assert device_faults.can_be_planted(path, fault, macros)
