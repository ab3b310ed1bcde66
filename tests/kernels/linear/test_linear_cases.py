"""The family's cases draw what they say, its truths are right, and a fault in a path shows."""

import dataclasses

import pytest
import torch

from engine.check.run import check_family, render, run_checks
from kernels.common import domain
from kernels.common.family import Op
from kernels.linear import problems, truth
from kernels.linear.ahead import variants_of
from kernels.linear.cases import CASES, FAMILY
from kernels.linear.pack import pack_nvfp4
from kernels.linear.problems import FORMATS, expand_case, product_case, weight_of, weight_parts
from kernels.linear.reference import exact_values

TRUTH = "within tolerance of fp64"


def small(op="skinny_linear", name="nvfp4", values=domain.NORMAL):
    return product_case(op, name, 3, 64, 272, values, cuda_only=False)


def reds(run, case=None, op="skinny_linear"):
    """The proofs that are red when another function stands in the place of an op's."""
    case = small(op) if case is None else case
    sound = FAMILY.ops[op]
    ops = {op: Op(run, sound.truth, sound.model)}
    family = dataclasses.replace(FAMILY, ops=ops, cases=(case,), laws=())
    return {one.proof: one.fault for one in check_family(family, "torch") if one.fault}


def test_products_are_green_on_the_cpu():
    report = run_checks(["linear"], "cpu")
    assert report.ok, render(report)
    subjects = {one.subject.split()[0] for one in report.findings}
    assert set(FAMILY.ops) < subjects


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_products_are_green_on_a_gpu():
    report = run_checks(["linear"], "cuda")
    assert report.ok, render(report)


def test_labels_tell_the_cases_of_a_function_apart():
    labels = [(case.op, case.label) for case in CASES]
    assert len(set(labels)) == len(labels)


@pytest.mark.parametrize("name", FORMATS)
def test_every_shape_of_the_27b_is_checked_at_32_rows(name):
    shapes = {(c.op, c.sizes["N"], c.sizes["K"]) for c in CASES
              if c.note == name and c.sizes.get("T") == 32}  # fmt: skip
    wanted = [(n, 5120) for n in (34816, 16384, 14336, 12288, 10240, 6144, 1024)]
    wanted += [(5120, 17408), (5120, 6144)]
    assert shapes >= {("skinny_linear", *shape) for shape in wanted}
    assert shapes >= {("skinny_pair", 34816, 5120), ("skinny_residual", 5120, 17408)}


def test_a_cpu_is_given_products_of_few_outputs_only():
    for case in CASES:
        if not case.cuda_only and case.op != "silu_mul":
            assert case.sizes["N"] <= 256
            assert case.sizes.get("T", 0) <= 40


@pytest.mark.parametrize("name", FORMATS)
def test_truth_decodes_what_packing_keeps(name):
    """Two decoders that share nothing: of the checkpoint's tensors, and of the packed weight."""
    for case in (product_case("skinny_linear", name, 1, 140, 400), expand_case(name, 75, 272)):
        inputs = case.draw(3, "cpu")
        decoded = truth.weight_rows(inputs, slice(0, case.sizes["N"]))
        assert torch.equal(decoded, exact_values(weight_of(inputs)))


def test_weights_hold_every_code_and_finite_scales():
    inputs = product_case("skinny_linear", "nvfp4", 1, 256, 5120).draw(1, "cpu")
    assert len(inputs["codes"].unique()) == 256
    assert len(inputs["scales"].view(torch.uint8).unique()) == 127
    codes = product_case("skinny_linear", "fp8_block", 1, 256, 5120).draw(1, "cpu")["codes"]
    assert len(codes.view(torch.uint8).unique()) == 254


def test_a_large_weight_repeats_its_values_but_not_its_rows():
    codes = product_case("skinny_linear", "e4m3_row", 1, 1024, 5120).draw(1, "cpu")["codes"]
    flat = codes.view(torch.uint8).flatten()
    assert torch.equal(flat[: 10**6], flat[problems.PERIOD :][: 10**6])
    assert len(codes.view(torch.uint8).unique(dim=0)) == 1024


def test_a_weight_is_packed_once_for_the_calls_of_a_proof():
    inputs = small().draw(1, "cpu")
    first = weight_of(inputs)
    assert weight_of({**inputs, "x": inputs["x"][:1]}) is first
    assert weight_of(small().draw(1, "cpu")) is not first


def test_a_gpu_without_a_converter_gets_other_variants_than_one_with():
    case = product_case("skinny_pair", "nvfp4", 32, 34816, 5120)
    hopper, spark = (variants_of(case, capability) for capability in ((9, 0), (12, 1)))
    for variants in (hopper, spark):
        assert {one.problem.row_blocks for one in variants} >= {1, 2}
    assert {one.tile for one in hopper}.isdisjoint(one.tile for one in spark)
    assert variants_of(small("middle_linear"), (9, 0)) == set()


def test_the_sound_path_is_green():
    assert reds(problems.run_skinny) == {}


def test_a_dropped_step_is_red():
    def run(inputs, outputs):
        x = inputs["x"].clone()
        x[:, 128:256] = 0
        problems.run_skinny({**inputs, "x": x}, outputs)

    assert TRUTH in reds(run)


def test_another_groups_scale_is_red():
    def run(inputs, outputs):
        scales = inputs["scales"]
        moved = scales.view(torch.uint8).roll(1, 1).view(scales.dtype)
        problems.run_skinny({**inputs, "scales": moved}, outputs)

    assert TRUTH in reds(run)


def test_swapped_halves_are_red():
    def run(inputs, outputs):
        codes = inputs["codes"]
        problems.run_skinny({**inputs, "codes": (codes >> 4) | (codes << 4)}, outputs)

    assert TRUTH in reds(run)


def test_spread_codes_that_nobody_asked_for_are_red():
    def run(inputs, outputs):
        codes = pack_nvfp4(*weight_parts(inputs), spread=True).codes[:, : inputs["codes"].shape[1]]
        problems.run_skinny({**inputs, "codes": codes.contiguous()}, outputs)

    assert TRUTH in reds(run)


def test_a_sum_that_was_rounded_before_it_was_scaled_is_red():
    """Half a unit of bf16 more than is due."""

    def run(inputs, outputs):
        codes, scales = inputs["codes"], torch.ones_like(inputs["scales"])
        problems.run_skinny({**inputs, "codes": codes, "scales": scales}, outputs)
        outputs["out"].copy_((outputs["out"].float() * inputs["scales"]).bfloat16())

    case = product_case("skinny_linear", "e4m3_row", 3, 256, 128, cuda_only=False)
    assert TRUTH in reds(run, case)


def test_a_residual_that_is_forgotten_and_one_added_twice_are_red():
    def forgotten(inputs, outputs):
        problems.run_skinny({k: v for k, v in inputs.items() if k != "residual"}, outputs)

    def twice(inputs, outputs):
        problems.run_skinny(inputs, outputs)
        outputs["out"] += inputs["residual"]

    for run in (forgotten, twice):
        assert TRUTH in reds(run, op="skinny_residual")


def test_gate_and_up_that_changed_places_are_red():
    def run(inputs, outputs):
        codes, scales, _ = weight_parts(inputs)
        bits = scales.view(torch.uint8).roll(32, 0).view(scales.dtype)
        problems.run_pair({**inputs, "codes": codes.roll(32, 0), "scales": bits}, outputs)

    assert TRUTH in reds(run, op="skinny_pair")


def test_an_expansion_that_rounds_elsewhere_is_red_by_its_bits():
    case = dataclasses.replace(expand_case("e4m3_row", 64, 128), interpreted=True)

    def run(inputs, outputs):
        wide = inputs["codes"].float() * inputs["scales"].bfloat16().float()[:, None]
        outputs["out"].copy_(wide)

    ops = {"expand": dataclasses.replace(FAMILY.ops["expand"], run=run)}
    family = dataclasses.replace(FAMILY, ops=ops, cases=(case,), laws=())
    found = {one.proof for one in check_family(family, "interpreter") if one.fault}
    assert "bits of the model" in found


def test_an_expansion_has_no_rows_that_could_stand_alone():
    family = dataclasses.replace(FAMILY, cases=(expand_case("nvfp4", 16, 128),), laws=())
    assert [one.proof for one in check_family(family, "torch")] == [TRUTH]
