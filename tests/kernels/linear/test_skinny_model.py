"""The model of the kernel's order meets fp64 within its bound, and a fault in it does not."""

from dataclasses import replace

import pytest
import torch

from kernels.common import domain
from kernels.common.compare import Tolerance, beyond_tolerance
from kernels.linear import laws, model
from kernels.linear.laws import _model_against_fp64, drawn
from kernels.linear.problems import FORMATS
from kernels.linear.tile import SkinnyTile
from kernels.linear.weight import Bf16Weight, E4m3RowWeight, Fp8BlockWeight, Nvfp4Weight

SIZES = (3, 24, 2560)
EXACT = Tolerance(0.0, 2.0**-140, "")


def kernel_like(sums: model.Sums, generator: torch.Generator) -> torch.Tensor:
    """What a kernel may write that is right: off by a unit of what its additions held."""
    signs = torch.rand(sums.value.shape, generator=generator).double() * 2 - 1
    return (sums.value.double() + signs * model.UNIT * sums.size).float()


def within_units(got: torch.Tensor, sums: model.Sums) -> str | None:
    """The bound of the law that compares the kernel with the model."""
    return beyond_tolerance(got, sums.value, EXACT, "TN", model.UNITS * model.UNIT * sums.size)


@pytest.mark.parametrize("name", FORMATS)
def test_every_input_meets_one_instruction(name: str):
    listed = list(model.instructions(name))
    assert [len(one) for one in listed] == [16] * 8
    assert sorted(one for inputs in listed for one in inputs) == list(range(128))


def test_a_lane_of_four_gives_an_instruction_its_own_inputs():
    assert next(model.instructions("nvfp4")) == [
        0, 1, 2, 3, 32, 33, 34, 35, 64, 65, 66, 67, 96, 97, 98, 99,
    ]  # fmt: skip
    assert list(model.instructions("bf16"))[1][:5] == [4, 5, 6, 7, 12]


@pytest.mark.parametrize(("splits", "warps"), [(1, 1), (2, 20), (4, 12), (8, 3), (2, 64)])
def test_slices_cover_the_steps_in_order(splits: int, warps: int):
    cut = model.slices(40, splits, warps)
    assert len(cut) == splits * warps
    assert [end for _, end in cut[:-1]] == [begin for begin, _ in cut[1:]]
    assert (cut[0][0], cut[-1][1]) == (0, 40)
    assert max(end - begin for begin, end in cut) == -(-40 // (splits * warps))


@pytest.mark.parametrize(
    ("largest", "exponent"),
    [(0.0, 0), (2.0**-6, 0), (65280.0, 0), (2.0**-7, 21), (1.9 * 2.0**-7, 21), (65536.0, -2),
     (2.0**54, -40), (2.0**-80, 94), (2.0**-130, 126)],
)  # fmt: skip
def test_a_slice_is_moved_where_fp16_ends(largest: float, exponent: int):
    rows = torch.tensor([[largest, -largest / 2]], dtype=torch.float64)
    assert model.range_factor(rows).item() == 2.0**exponent


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("values", [domain.NORMAL, *domain.HOSTILE], ids=lambda one: one.name)
def test_the_model_meets_fp64(name: str, values: domain.Domain):
    inputs, weight = drawn(name, *SIZES, "cpu", values)
    assert _model_against_fp64(inputs, weight) is None


def test_the_order_decides_bits():
    inputs, weight = drawn("nvfp4", *SIZES, "cpu")
    sums = [model.skinny_sums(inputs["x"], weight, SkinnyTile(s, w, 1, 2, "global")).value
            for s, w in ((1, 4), (2, 2), (4, 1), (1, 20))]  # fmt: skip
    # cutting K the same way but adding in another tree differs too, in some of 72 sums.
    assert not torch.equal(sums[0], sums[1])
    assert not torch.equal(sums[0], sums[3])


def _drop_a_slice(monkeypatch, name):
    whole = model.slices
    monkeypatch.setattr(model, "slices", lambda *a: [*whole(*a)[:-1], (0, 0)])


def _take_another_scale(monkeypatch, name):
    whole = model.operands_of

    def shifted(weight):
        if isinstance(weight, Nvfp4Weight):
            weight = replace(weight, scale_runs=weight.scale_runs.view(torch.uint8).roll(1, -1)
                             .view(torch.float8_e4m3fn))  # fmt: skip
        if isinstance(weight, Fp8BlockWeight):
            weight = replace(weight, scales=weight.scales.roll(1, 1))
        return whole(weight)

    def scaled(sums, weight, ours=model._row_scaled):
        if isinstance(weight, E4m3RowWeight):
            weight = replace(weight, row_scales=weight.row_scales.roll(1))
        return ours(sums, weight)

    monkeypatch.setattr(model, "operands_of", shifted)
    monkeypatch.setattr(model, "_row_scaled", scaled)


def _swap_halves(monkeypatch, name):
    whole = model.operands_of

    def swapped(weight):
        values, scales = whole(weight)
        return values.unflatten(1, (-1, 2)).flip(2).flatten(1), scales

    monkeypatch.setattr(model, "operands_of", swapped)


def _forget_the_range(monkeypatch, name):
    monkeypatch.setattr(model, "range_factor", lambda rows: torch.ones((len(rows), 1)).double())


def _lose_an_instruction(monkeypatch, name):
    whole = model.instructions
    monkeypatch.setattr(model, "instructions", lambda name: list(whole(name))[:-1])


FAULTS = {
    "dropped slice": _drop_a_slice,
    "wrong scale": _take_another_scale,
    "swapped halves": _swap_halves,
    "lost instruction": _lose_an_instruction,
}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_red_against_fp64_and_against_the_model(monkeypatch, name, fault):
    inputs, weight = drawn(name, *SIZES, "cpu")
    if fault == "wrong scale" and isinstance(weight, Bf16Weight):
        pytest.skip("has no scale")
    tile = SkinnyTile(2, 10, 1, 2, "global")
    sound = model.skinny_sums(inputs["x"], weight, tile)
    FAULTS[fault](monkeypatch, name)
    assert _model_against_fp64(inputs, weight) is not None
    wrong = model.skinny_sums(inputs["x"], weight, tile)
    assert within_units(wrong.value, sound) is not None


@pytest.mark.parametrize("values", [domain.HUGE, domain.TINY], ids=lambda one: one.name)
def test_activations_outside_fp16_need_the_factor(monkeypatch, values):
    inputs, weight = drawn("fp8_block", *SIZES, "cpu", values)
    _forget_the_range(monkeypatch, "")
    assert _model_against_fp64(inputs, weight) is not None


@pytest.mark.parametrize("name", FORMATS)
def test_what_a_right_kernel_may_write_is_green(name):
    inputs, weight = drawn(name, *SIZES, "cpu")
    sums = model.skinny_sums(inputs["x"], weight, SkinnyTile(2, 10, 1, 2, "global"))
    assert within_units(kernel_like(sums, torch.Generator().manual_seed(1)), sums) is None


@pytest.mark.parametrize("name", FORMATS)
def test_the_bound_is_a_few_units_of_the_result(name):
    """Tight: about a thousandth of a bf16 rounding of a typical sum for each step of a slice."""
    inputs, weight = drawn(name, *SIZES, "cpu")
    sums = model.skinny_sums(inputs["x"], weight, SkinnyTile(2, 10, 1, 2, "global"))
    typical = sums.value.double().abs().mean(dim=0)
    assert bool((model.UNITS * model.UNIT * sums.size.mean(dim=0) < typical * 2.0**-11).all())


def test_the_law_says_which_format_and_domain_is_wrong(monkeypatch):
    _drop_a_slice(monkeypatch, "")
    law = next(law for law in laws.LAWS if law.name == "the model of the order agrees")
    assert (law.broken("cpu") or "").startswith("nvfp4 (24, 1280) normal: splits")
