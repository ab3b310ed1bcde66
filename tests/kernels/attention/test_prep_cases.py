"""The preparation is rms_norm and the rotation, on a CPU and interpreted; arguments are checked."""

from pathlib import Path

import pytest
import torch

from engine.check.families import sizes_of
from engine.model.config import SHAPE_27B
from kernels.attention.cases import FAMILY
from kernels.attention.prep import attention_prep
from kernels.attention.prep_cases import EPS, empty_store, prep_case, prepare
from kernels.attention.prep_timed import timed_prep
from kernels.attention.reference import rotate_reference
from kernels.norm.reference import rms_norm_reference

SIZES = sizes_of("27b", SHAPE_27B, ("nvfp4",))


def test_the_kernels_and_the_cpu_path_are_green(run_script):
    script = Path(__file__).with_name("prep_script.py")
    for build in ("torch", "interpreter"):
        found = run_script(script, build, interpreted=build == "interpreter")
        assert found["num_proofs"] > 25
        assert found["red"] == []


def test_the_cpu_path_has_the_bits_of_the_norm_and_the_rotation():
    inputs = prep_case(9, (6, 1)).draw(1, "cpu")
    keys, values, out = empty_store(inputs), empty_store(inputs), torch.empty(9, 6, 256).bfloat16()
    prepare(inputs, keys, values, out)
    at = inputs["start"] + inputs["depths"].long()
    angles = inputs["cos"][at], inputs["sin"][at]
    query = inputs["q"].view(9, 6, 512)[..., :256]
    key, value = inputs["k"].view(9, 1, 256), inputs["v"].view(9, 1, 256)
    normed = rms_norm_reference(query, inputs["q_norm"], EPS)
    assert torch.equal(out, rotate_reference(normed, *angles))
    normed = rms_norm_reference(key, inputs["k_norm"], EPS)
    assert torch.equal(keys[:, 5:14].transpose(0, 1), rotate_reference(normed, *angles))
    assert torch.equal(values[:, 5:14].transpose(0, 1), value)


def call(**changed: torch.Tensor | None) -> None:
    """Call attention_prep on five rows, some arguments exchanged."""
    inputs = prep_case(5, (2, 1), width=64, turned=16).draw(2, "cpu")
    arguments = {
        **inputs,
        "keys": empty_store(inputs),
        "values": empty_store(inputs),
        "out": torch.empty(5, 2, 64).bfloat16(),
    }
    attention_prep(**arguments | changed, eps=EPS)


@pytest.mark.parametrize(
    ("name", "shape", "message"),
    [
        ("q", (5, 128), "2 query and 1 key heads of 64 need q of 256 .* got 128"),
        ("k", (4, 64), r"k must be \[T, G D\] = \[5, any\], got \[4, 64\]"),
        ("out", (5, 2, 32), r"keys must be \[G, capacity, D\] = \[any, any, 32\]"),
        ("cos", (64, 8), r"sin must be \[positions, R\] = \[64, 8\], got \[64, 16\]"),
        ("values", (1, 63, 64), r"values must be .* = \[1, 64, 64\], got \[1, 63, 64\]"),
    ],
)
def test_a_wrong_shape_is_a_sentence(name, shape, message):
    with pytest.raises(ValueError, match=message):
        call(**{name: torch.zeros(shape, dtype=torch.bfloat16)})


def test_missing_depths_and_odd_angles_are_sentences():
    with pytest.raises(ValueError, match="5 rows have 3 depths; pass one a row"):
        call(depths=torch.zeros(3, dtype=torch.int32))
    odd = torch.zeros(64, 7).bfloat16()
    with pytest.raises(ValueError, match="even number of columns, 2 to 64, got 7"):
        call(cos=odd, sin=odd)
    with pytest.raises(TypeError, match="start must be int32"):
        call(start=torch.zeros(1, dtype=torch.int64))
    apart = torch.zeros(1, 64, 128).bfloat16()[..., :64]
    with pytest.raises(ValueError, match=r"keys\[0\] must be contiguous"):
        call(keys=apart)


@pytest.mark.parametrize("rows", [1, 16, 1024])
def test_problems_are_timed_on_what_was_proven(rows):
    plain, coded = timed_prep(SIZES, rows)
    for problem in (plain, coded):
        assert problem.op in FAMILY.ops
        assert problem.case is not None
    written = plain.case.written_bytes
    assert 2 * written <= plain.num_bytes < plain.case.read_bytes + written
    assert plain.num_bytes - coded.num_bytes == rows * 2 * 4 * 256
