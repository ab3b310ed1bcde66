"""A case draws the same inputs everywhere, poisons its outputs and counts its bytes."""

from dataclasses import replace

import pytest
import torch

from kernels.common import domain
from kernels.common.case import GUARD
from kernels.norm.cases import FAMILY, add_case, rms_case


def test_one_seed_draws_the_same_values_and_another_does_not():
    case = rms_case(3, 64)
    first, again, other = (case.draw(seed, "cpu")["x"] for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_two_inputs_of_one_case_are_drawn_apart():
    inputs = add_case(3, 64).draw(1, "cpu")
    assert not torch.equal(inputs["x"], inputs["residual"])


def test_bytes_count_every_input_and_output_once():
    case = add_case(16, 5120)
    assert case.read_bytes == 2 * 16 * 5120 * 2 + 5120 * 2
    assert case.written_bytes == 2 * 16 * 5120 * 2


def test_outputs_start_as_nan_between_guards_and_keep_alignment():
    outputs = rms_case(3, 5).poisoned_outputs("cpu")
    out = outputs.tensors["out"]
    assert out.shape == (3, 5)
    assert bool(out.isnan().all())
    assert (out.data_ptr() - outputs.buffers["out"].data_ptr()) % 16 == 0


@pytest.mark.parametrize("index", [GUARD - 1, -GUARD])
def test_a_write_outside_the_output_is_named(index: int):
    outputs = rms_case(3, 5).poisoned_outputs("cpu")
    outputs.tensors["out"].fill_(1.0)
    assert outputs.written_outside() is None
    outputs.buffers["out"][index] = 0.0
    assert outputs.written_outside() == "out: wrote outside its 15 elements"


def test_an_input_without_a_domain_is_refused_by_name():
    case = rms_case(3, 64)
    weight = replace(case.inputs[1], domain=None)
    with pytest.raises(ValueError, match="rms_norm .*: input weight names no domain"):
        replace(case, inputs=(case.inputs[0], weight)).draw(1, "cpu")


@pytest.mark.parametrize("hostile", domain.HOSTILE, ids=lambda d: d.name)
def test_every_domain_draws_finite_bf16(hostile: domain.Domain):
    x = rms_case(8, 1000, hostile).draw(1, "cpu")["x"]
    assert bool(x.isfinite().all())
    assert float(x.abs().max()) <= 2.0**57


def test_labels_tell_the_cases_of_a_function_apart():
    labels = [(case.op, case.label) for case in FAMILY.cases]
    assert len(labels) == len(set(labels))
