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
    factor = 128**-0.5 / math.log(2)
    q, keys = torch.zeros(1, 128), torch.zeros(1, 2, 128)
    q[0, 0], keys[0, 1, 0] = 1.0, -0.3 / factor
    values = torch.stack((torch.zeros(128), torch.ones(128)))[None]
    total, _, weight = verify_model._chunk(q, keys, values)
    rounded = torch.exp2(torch.tensor(-0.3)).bfloat16().float()
    assert torch.equal(total, rounded.expand(1, 128))
    assert torch.equal(weight, 1.0 + rounded.expand(1))


def kept(*numbers: float) -> torch.Tensor:
    """What is kept of a side's sums, the others zeros."""
    sums = torch.zeros(1, 256)
    sums[0, : len(numbers)] = torch.tensor(numbers)
    return verify_model._kept(sums)[0, : len(numbers)].double()


@pytest.mark.parametrize("exponent", [-149, -130, -113, -112, -80, 0, 54, 127])
def test_sums_are_kept_to_eleven_digits_and_the_smallest_to_a_step_of_the_largest(exponent):
    drawn = torch.randn(500, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    drawn = torch.cat((drawn, drawn * 2.0**-20, drawn * 2.0**-36)) / drawn.abs().max() * 1.99
    sums = (drawn * 2.0**exponent).float()[: 128 * 11].view(11, 128).repeat(1, 2)
    error = (verify_model._kept(sums).double() - sums.double()).abs()
    largest = sums.abs().amax(1, keepdim=True).double()
    # where all of a row is under 2^-112, steps are those of 2^-126
    steps = (2.0**-39 * largest).clamp(min=2.0**-151)
    assert bool((error <= torch.maximum(2.0**-11 * sums.abs().double(), steps)).all())


def test_a_power_goes_by_what_is_finite_and_the_others_stay_what_they_are():
    numbers = (1.0, 2.0**-30 + 2.0**-37, 3.0)
    want = kept(*numbers)
    assert want.tolist() == list(numbers)
    for other in (math.inf, -math.inf, math.nan):
        got = kept(*numbers, other)
        assert torch.equal(got[:3], want)
        assert got[3].isnan() if math.isnan(other) else got[3] == other


def test_sides_have_powers_of_their_own():
    sums = torch.full((1, 256), 2.0**-50)
    sums[0, 0] = 2.0**40
    got = verify_model._kept(sums)
    assert bool((got[0, 1:128] == 0).all()), "a step of the largest is 2^1"
    assert torch.equal(got[0, 128:], sums[0, 128:])


def spoil_power(monkeypatch):
    """Keep sums in fp16 without a power of two."""
    monkeypatch.setattr(verify_model, "_kept", lambda sums: sums.half().float())


@pytest.mark.parametrize("values", [domain.TINY, domain.HUGE], ids=lambda one: one.name)
def test_sums_without_their_power_leave_the_bound(monkeypatch, values):
    case = verify_case(3, 130, heads=6, groups=1, values=values)
    spoil_power(monkeypatch)
    assert fault_of(case) is not None
