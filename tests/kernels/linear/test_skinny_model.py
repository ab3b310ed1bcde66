"""The model of the kernel's order meets fp64 within its bound, and a fault in it does not."""

from dataclasses import replace
from functools import reduce

import pytest
import torch

from kernels.common import domain
from kernels.common.compare import Tolerance, beyond_tolerance
from kernels.linear import laws, model
from kernels.linear.drawn import drawn
from kernels.linear.laws import _model_against_fp64
from kernels.linear.problems import FORMATS
from kernels.linear.tile import SLICES
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


@pytest.mark.parametrize("num_steps", [1, 5, 8, 40, 48, 136])
def test_slices_cover_the_steps_in_order(num_steps: int):
    cut = model.slices(num_steps)
    assert len(cut) == SLICES == 8
    assert [end for _, end in cut[:-1]] == [begin for begin, _ in cut[1:]]
    assert (cut[0][0], cut[-1][1]) == (0, num_steps)
    assert max(end - begin for begin, end in cut) == -(-num_steps // SLICES)


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
    inputs, weight = drawn(name, *SIZES, "cpu", values, as_stored=True)
    assert _model_against_fp64(inputs, weight) is None


def test_the_order_decides_bits(monkeypatch):
    """Other slices, and the same added one after the other, differ in some of 72 sums."""
    inputs, weight = drawn("nvfp4", *SIZES, "cpu")
    ours, cut = model.skinny_sums(inputs["x"], weight).value, model.slices
    monkeypatch.setattr(model, "slices", lambda num_steps: cut(num_steps, 4))
    assert not torch.equal(ours, model.skinny_sums(inputs["x"], weight).value)
    monkeypatch.setattr(model, "slices", cut)
    assert not torch.equal(ours, _added_in_a_chain(inputs["x"], weight))


def _added_in_a_chain(x: torch.Tensor, weight: Nvfp4Weight) -> torch.Tensor:
    operands, scales = model.operands_of(weight)
    parts = [model._slice(x.double(), operands, scales, steps, weight)
             for steps in model.slices(SIZES[2] // 128)]  # fmt: skip
    return model._row_scaled(reduce(model._added, parts), weight).value


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
    inputs, weight = drawn(name, *SIZES, "cpu", as_stored=True)
    if fault == "wrong scale" and isinstance(weight, Bf16Weight):
        pytest.skip("has no scale")
    sound = model.skinny_sums(inputs["x"], weight)
    FAULTS[fault](monkeypatch, name)
    assert _model_against_fp64(inputs, weight) is not None
    wrong = model.skinny_sums(inputs["x"], weight)
    assert within_units(wrong.value, sound) is not None


@pytest.mark.parametrize("values", [domain.HUGE, domain.TINY], ids=lambda one: one.name)
def test_activations_outside_fp16_need_the_factor(monkeypatch, values):
    inputs, weight = drawn("fp8_block", *SIZES, "cpu", values)
    _forget_the_range(monkeypatch, "")
    assert _model_against_fp64(inputs, weight) is not None


@pytest.mark.parametrize("name", FORMATS)
def test_what_a_right_kernel_may_write_is_green(name):
    inputs, weight = drawn(name, *SIZES, "cpu")
    sums = model.skinny_sums(inputs["x"], weight)
    assert within_units(kernel_like(sums, torch.Generator().manual_seed(1)), sums) is None


@pytest.mark.parametrize("name", FORMATS)
def test_the_bound_is_a_few_units_of_the_result(name):
    """Tight: about a thousandth of a bf16 rounding of a typical sum for each step of a slice."""
    inputs, weight = drawn(name, *SIZES, "cpu")
    sums = model.skinny_sums(inputs["x"], weight)
    typical = sums.value.double().abs().mean(dim=0)
    assert bool((model.UNITS * model.UNIT * sums.size.mean(dim=0) < typical * 2.0**-11).all())


def test_the_law_says_which_format_and_domain_is_wrong(monkeypatch):
    _drop_a_slice(monkeypatch, "")
    law = next(law for law in laws.LAWS if law.name == "the model of the order agrees")
    assert (law.broken("cpu") or "").startswith("nvfp4 (24, 1280) normal: ")
