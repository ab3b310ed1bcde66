"""What the methods promise of every matrix, whatever lies in it."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.quantize.clip import OFFSETS, ROOM, search
from engine.quantize.gptq import DAMPINGS, feedback_of, round_with_feedback
from engine.quantize.grid import decode, places, unpack, values
from engine.quantize.methods import METHODS, Quantiser, widened
from engine.quantize.scales import multipliers, nearest_scales, tensor_scale


def matrix(seed: int, num_rows: int, width: int) -> torch.Tensor:
    """Weights whose rows and inputs differ in size, with zeros, a whole group of them too."""
    generator = torch.Generator().manual_seed(seed)
    weight = torch.randn((num_rows, width), generator=generator)
    weight *= torch.exp(2 * torch.randn((num_rows, 1), generator=generator))
    weight *= torch.exp(torch.randn(width, generator=generator))
    weight[0, :16] = 0.0
    return weight.bfloat16()


def inputs(seed: int, num_rows: int, width: int) -> torch.Tensor:
    """Rows whose inputs move together, as those of a model do."""
    generator = torch.Generator().manual_seed(seed)
    mixing = torch.randn((width, width), generator=generator) * width**-0.5
    sizes = torch.exp(torch.randn(width, generator=generator))
    return (torch.randn((num_rows, width), generator=generator) @ mixing + 0.3) * sizes


def moments_of(rows: torch.Tensor) -> torch.Tensor:
    return rows.t() @ rows / len(rows)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1000), st.integers(1, 9), st.integers(1, 9), st.sampled_from(METHODS))
def test_scales_are_positive_and_finite_and_values_near(seed, num_rows, num_groups, method):
    weight = matrix(seed, num_rows, 16 * num_groups)
    moments = moments_of(inputs(seed, 64, 16 * num_groups))
    found = Quantiser(method, moments).quantise(weight)
    scales = found.scales.float() * found.tensor_scale
    assert torch.isfinite(scales).all()
    assert (scales > 0).all()
    assert found.codes.dtype == torch.uint8
    assert found.codes.shape == (num_rows, 8 * num_groups)
    assert found.tensor_scale.dim() == 0
    assert torch.equal(widened(found), found.expand())


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1000), st.integers(1, 9), st.integers(1, 9))
def test_nearest_takes_the_nearest_code_under_its_scale(seed, num_rows, num_groups):
    weight = matrix(seed, num_rows, 16 * num_groups)
    found = Quantiser("nearest", None).quantise(weight)
    scale = multipliers(found.scales.view(torch.uint8), found.tensor_scale)
    scale = scale.repeat_interleave(16, 1)
    every = decode(torch.arange(16, dtype=torch.uint8)) * scale[..., None]
    least = (weight.float()[..., None] - every).abs().amin(-1)
    error = (weight.float() - decode(unpack(found.codes)) * scale).abs()
    assert (error <= least * (1 + 1e-6) + 1e-30).all()


def test_a_matrix_of_zeros_stays_one():
    for method in METHODS:
        zeros = torch.zeros((4, 32)).bfloat16()
        found = Quantiser(method, moments_of(inputs(0, 64, 32))).quantise(zeros)
        assert not found.expand().any()
        assert (found.scales.float() > 0).all()


def test_the_largest_weight_of_every_group_keeps_within_a_rounding_of_the_scale():
    weight = matrix(3, 8, 64)
    whole = tensor_scale(weight)
    groups = weight.float().view(8, 4, 16)
    scale = multipliers(nearest_scales(groups, whole), whole)
    largest = groups.abs().amax(-1)
    ordinary = largest > largest.max() * 2.0**-13  # below, e4m3 has no normal number left
    assert ((6 * scale / largest)[ordinary] - 1).abs().max() <= 1 / 16


def test_the_search_finds_the_least_weighted_error_of_all_candidates():
    weight, weighting = matrix(5, 6, 48).float(), torch.rand(48) * 4
    whole = tensor_scale(weight, ROOM)
    groups = weight.view(6, 3, 16)
    chosen = search(groups, weighting.view(3, 16), whole)

    def error(scales: torch.Tensor) -> torch.Tensor:
        scale = multipliers(scales, whole)[..., None]
        lost = (values(places(groups / scale)) * scale - groups).square()
        return (lost * weighting.view(3, 16)).sum(-1)

    first = nearest_scales(groups, whole).int()
    every = [error((first + step).clamp(1, 126).to(torch.uint8)) for step in OFFSETS]
    assert torch.equal(error(chosen), torch.stack(every).amin(0))


def test_inputs_that_weigh_nothing_cost_nothing():
    groups = torch.tensor([[8.0] + [1.0] * 15])
    whole = tensor_scale(groups, ROOM)
    weighting = torch.tensor([0.0] + [1.0] * 15)
    clipped = multipliers(search(groups, weighting, whole), whole)
    kept = multipliers(search(groups, torch.ones(16), whole), whole)
    assert clipped < kept


def test_each_method_loses_less_of_the_outputs_than_the_one_before():
    """On rows that the moments were not taken from."""
    weight = matrix(1, 96, 128)
    rows = inputs(2, 4096, 128)
    moments, unseen = moments_of(rows[:2048]), rows[2048:]
    errors = []
    for method in METHODS:
        values = Quantiser(method, moments).quantise(weight).expand()
        errors.append(float((unseen @ (weight.float() - values.float()).t()).square().sum()))
    nearest, clip, gptq = errors
    assert gptq < 0.8 * clip
    assert clip < 0.8 * nearest


def test_without_correlations_feedback_changes_nothing():
    """A diagonal of moments leaves nothing to make good: GPTQ is the clip search then."""
    weight, moments = matrix(4, 16, 64), torch.diag(torch.rand(64) + 0.5)
    clip, gptq = (Quantiser(method, moments).quantise(weight) for method in ("clip", "gptq"))
    alike = clip.codes == gptq.codes
    assert alike.float().mean() > 0.95  # damping shifts the weighting by a hundredth of its mean


def test_the_factor_is_one_of_the_inverse():
    rows = inputs(7, 512, 64).double().float()
    moments = moments_of(rows)
    feedback = feedback_of(moments)
    upper, order = feedback.inverse.double(), feedback.inputs
    assert torch.equal(upper, upper.triu())
    added = DAMPINGS[0] * moments.diagonal().double().mean()
    damped = (moments.double() + added * torch.eye(64).double())[order][:, order]
    assert torch.allclose(upper.t() @ upper @ damped, torch.eye(64).double(), atol=1e-3)


@pytest.mark.parametrize("kind", ["zero", "one row", "huge", "tiny"])
def test_moments_of_few_or_no_rows_are_factored(kind):
    rows = {
        "zero": torch.zeros((4, 32)), "one row": inputs(1, 1, 32),
        "huge": inputs(1, 8, 32) * 1e15, "tiny": inputs(1, 8, 32) * 1e-15,
    }[kind]  # fmt: skip
    found = Quantiser("gptq", moments_of(rows)).quantise(matrix(0, 8, 32))
    assert torch.isfinite(found.expand()).all()


def test_groups_stay_whole_and_come_by_their_energy():
    moments = moments_of(inputs(8, 512, 96))
    feedback = feedback_of(moments)
    energy = moments.diagonal().view(6, 16).sum(1)[feedback.groups]
    assert torch.equal(energy, energy.sort(descending=True).values)
    whole_groups = feedback.inputs.view(6, 16)
    assert torch.equal(whole_groups // 16, feedback.groups[:, None].expand(6, 16))


def test_rows_do_not_see_each_other():
    weight, feedback = matrix(6, 32, 144), feedback_of(moments_of(inputs(6, 512, 144)))
    whole = tensor_scale(weight, ROOM)
    codes, scales = round_with_feedback(weight, feedback, whole)
    some, some_scales = round_with_feedback(weight[8:16], feedback, whole)
    # a product of other sizes may round its last bit otherwise
    assert (codes[8:16] == some).float().mean() > 0.999
    assert (scales[8:16] == some_scales).float().mean() > 0.99
