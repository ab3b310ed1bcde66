"""The references have the model's rounding points: bit-equal to transformers on a CPU."""

from pathlib import Path

import pytest
import torch

from kernels.common import exact_torch
from kernels.common.compare import bf16_steps, bits_of, different_bits, share_of_different_bits
from kernels.norm.cases import EPS, FAMILY, gated_case, rms_case
from kernels.norm.reference import (
    add_rms_norm_reference,
    gated_rms_norm_reference,
    mean_square_of_kernel,
    mean_square_of_torch,
    rms_norm_reference,
)

CASES = tuple(case for case in FAMILY.cases if case.sizes["T"] <= 100)


@pytest.fixture(scope="module")
def oracle(run_script, tmp_path_factory) -> list[torch.Tensor]:
    """What transformers returns for every case, from one process of its own."""
    folder = tmp_path_factory.mktemp("oracle")
    inputs = [{**case.draw(7, "cpu"), "eps": EPS} for case in CASES]
    torch.save(inputs, folder / "inputs.pt")
    script = Path(__file__).with_name("transformers_script.py")
    checkout = Path(__file__).parents[3]
    ours = run_script(script, str(folder / "inputs.pt"), str(folder / "outputs.pt"), str(checkout))
    assert ours == [], "the oracle must not import our packages"
    return torch.load(folder / "outputs.pt")


@pytest.mark.parametrize("index", range(len(CASES)), ids=[f"{c.op} {c.label}" for c in CASES])
def test_reference_has_the_bits_of_transformers(oracle, index: int):
    case = CASES[index]
    inputs = case.draw(7, "cpu")
    if case.op == "rms_norm":
        got = rms_norm_reference(inputs["x"], inputs["weight"], EPS)
    elif case.op == "add_rms_norm":
        got, _ = add_rms_norm_reference(inputs["x"], inputs["residual"], inputs["weight"], EPS)
    else:
        got = gated_rms_norm_reference(inputs["x"], inputs["gate"], inputs["weight"], EPS)
    assert different_bits(got, oracle[index], case.outputs[0].axes) is None


@pytest.fixture(scope="module")
def prefill() -> dict[str, torch.Tensor]:
    return rms_case(1500, 5120).draw(8, "cpu")


def test_the_kernels_sum_changes_only_rows_whose_inverse_rms_it_changes(prefill):
    x, weight = prefill["x"], prefill["weight"]
    ours = rms_norm_reference(x, weight, EPS, mean_square_of_kernel)
    theirs = rms_norm_reference(x, weight, EPS)
    inverse = [
        torch.rsqrt(mean(x.float()) + EPS) for mean in (mean_square_of_kernel, mean_square_of_torch)
    ]
    same = (bits_of(inverse[0]) == bits_of(inverse[1])).squeeze(-1)
    assert 0 < int(same.sum()) < len(same), "the case must have rows of both kinds"
    assert different_bits(ours[same], theirs[same], "TD") is None


def test_the_kernels_sum_moves_few_elements_and_those_by_one_step(prefill):
    x, weight = prefill["x"], prefill["weight"]
    ours = rms_norm_reference(x, weight, EPS, mean_square_of_kernel)
    theirs = rms_norm_reference(x, weight, EPS)
    assert int(bf16_steps(ours, theirs).max()) == 1
    assert share_of_different_bits(ours, theirs) < 1e-4


def test_the_kernels_silu_moves_few_elements_and_those_by_one_step():
    inputs = gated_case(1500, 48).draw(9, "cpu")
    x, gate, weight = inputs["x"], inputs["gate"], inputs["weight"]
    mean = mean_square_of_torch
    ours = gated_rms_norm_reference(x, gate, weight, EPS, mean, exact_torch.silu)
    theirs = gated_rms_norm_reference(x, gate, weight, EPS)
    assert int(bf16_steps(ours, theirs).max()) <= 1
    assert share_of_different_bits(ours, theirs) < 1e-6


def test_a_bf16_weight_rounds_the_product_and_an_fp32_weight_does_not():
    inputs = gated_case(4, 48).draw(10, "cpu")
    x, gate, weight = inputs["x"], inputs["gate"], inputs["weight"]
    rounded = gated_rms_norm_reference(x, gate, weight, EPS)
    kept = gated_rms_norm_reference(x, gate, weight.float(), EPS)
    assert share_of_different_bits(rounded, kept) > 0.05
