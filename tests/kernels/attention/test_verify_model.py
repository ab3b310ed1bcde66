"""The order of the kernel's steps computes attention, and the bound sees a step that is wrong."""

import math

import pytest
import torch

from kernels.attention import verify_model
from kernels.attention.verify_problems import single_step, verify_case
from kernels.attention.verify_truth import truth_verify
from kernels.common import domain
from kernels.common.compare import beyond_tolerance

CASES = [
    verify_case(3, 70, heads=6, groups=1),
    verify_case(2, 1150, heads=6, groups=1),
    verify_case(2, 2300, heads=4, groups=1),
    verify_case(6, 50, heads=8, groups=2, tree=1),
    *(verify_case(3, 130, heads=6, groups=1, values=values) for values in domain.HOSTILE),
]


def fault_of(case, inputs=None) -> str | None:
    inputs = case.draw(5, "cpu") if inputs is None else inputs
    truth = truth_verify(case.draw(5, "cpu"), kernel=True)
    got = verify_model.model_verify(inputs)["out"]
    return beyond_tolerance(got, truth["out"], case.tolerance, ("T", "HD"), truth["out_slack"])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
def test_the_order_of_the_kernel_stays_in_the_kernels_bound(case):
    assert fault_of(case) is None


@pytest.mark.parametrize("case", CASES[:4], ids=lambda case: case.label)
def test_a_row_is_its_single_step(case):
    inputs = case.draw(6, "cpu")
    together = verify_model.model_verify(inputs)["out"]
    for row in range(case.sizes["T"]):
        assert torch.equal(
            verify_model.model_verify(single_step(inputs, row))["out"][0], together[row]
        )


def spoil_merge(monkeypatch):
    """Weigh all chunks alike."""
    chunk = verify_model._chunk
    monkeypatch.setattr(
        verify_model, "_chunk", lambda q, k, v: (lambda s, t, w: (s, t * 0, w))(*chunk(q, k, v))
    )


def spoil_tile(monkeypatch):
    """Forget to scale what earlier tiles added."""
    exp2 = verify_model.torch.exp2
    monkeypatch.setattr(verify_model, "TILE", 16)
    monkeypatch.setattr(
        verify_model.torch, "exp2", lambda x: torch.ones_like(x) if x.dim() == 1 else exp2(x)
    )


def spoil_strands(monkeypatch):
    """Leave the chunks of one strand out."""
    monkeypatch.setattr(verify_model, "_strand", lambda chunks, strand: chunks[strand + 1 :: 8])


@pytest.mark.parametrize("spoil", [spoil_merge, spoil_tile, spoil_strands])
def test_a_wrong_step_leaves_the_bound(monkeypatch, spoil):
    case = verify_case(2, 200, heads=6, groups=1)
    assert fault_of(case) is None
    spoil(monkeypatch)
    assert fault_of(case) is not None


def test_a_key_of_another_branch_leaves_the_bound():
    case = verify_case(6, 50, heads=8, groups=2, tree=1)
    inputs = case.draw(5, "cpu")
    inputs["paths"] = torch.arange(32, dtype=torch.int32).repeat(6, 1)
    assert fault_of(case, inputs) is not None


def test_a_forgotten_position_leaves_the_bound():
    case = verify_case(2, 70, heads=6, groups=1)
    inputs = case.draw(5, "cpu")
    inputs["start"] = inputs["start"] - 1
    assert fault_of(case, inputs) is not None


def test_weights_are_rounded_before_they_meet_values_and_before_they_are_added():
    """One of two positions weighs 2^-0.3, which bf16 does not hold."""
    factor = 16**-0.5 / math.log(2)
    q, keys = torch.zeros(1, 16), torch.zeros(1, 2, 16)
    q[0, 0], keys[0, 1, 0] = 1.0, -0.3 / factor
    values = torch.stack((torch.zeros(16), torch.ones(16)))[None]
    total, _, weight = verify_model._chunk(q, keys, values)
    rounded = torch.exp2(torch.tensor(-0.3)).bfloat16().float()
    assert torch.equal(total, rounded.expand(1, 16))
    assert torch.equal(weight, 1.0 + rounded.expand(1))
