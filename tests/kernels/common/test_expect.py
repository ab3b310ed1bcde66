"""A wrong argument is answered by a sentence: name, symbols, numbers, and how to mend it."""

import pytest
import torch

from kernels.common.expect import Axes
from kernels.norm import NormTile, add_rms_norm, gated_rms_norm, rms_norm

X = torch.zeros(3, 8, dtype=torch.bfloat16)
W = torch.zeros(8, dtype=torch.bfloat16)


def test_a_letter_takes_its_number_from_the_first_tensor_that_shows_it():
    axes = Axes("f")
    axes.tensor("x", X, ("T", "D"), (torch.bfloat16,), "pass x")
    assert (axes["T"], axes["D"]) == (3, 8)


def test_a_number_in_the_place_of_a_letter_is_itself():
    axes = Axes("f")
    axes.tensor("x", X, ("3", "D"), (torch.bfloat16,), "pass x")
    with pytest.raises(ValueError, match=r"^f: y must be \[2, D\] = \[2, 8\], got \[3, 8\]; pa"):
        axes.tensor("y", X, ("2", "D"), (torch.bfloat16,), "pass y")


def test_a_wrong_shape_names_argument_symbols_and_numbers():
    with pytest.raises(ValueError, match=r"^rms_norm: weight must be \[D\] = \[8\], got \[5\]; "):
        rms_norm(X, W[:5], 1e-6)


def test_an_unbound_letter_reads_any():
    with pytest.raises(ValueError, match=r"x must be \[T, D\] = \[any, any\], got \[8\]"):
        rms_norm(W, W, 1e-6)


def test_a_wrong_dtype_names_what_is_taken():
    with pytest.raises(TypeError, match=r"^rms_norm: x must be bfloat16 \[T, D\], got float32; "):
        rms_norm(X.float(), W, 1e-6)
    with pytest.raises(TypeError, match="weight must be bfloat16 or float32"):
        rms_norm(X, W.half(), 1e-6)


def test_a_strided_last_axis_is_refused_with_the_remedy():
    with pytest.raises(ValueError, match=r"stride 1 along D, got strides \[1, 3\]; call .contig"):
        rms_norm(torch.zeros(8, 3, dtype=torch.bfloat16).T, W, 1e-6)


def test_the_same_letter_cannot_mean_two_numbers():
    with pytest.raises(ValueError, match=r"residual must be \[T, D\] = \[3, 8\], got \[2, 8\]"):
        add_rms_norm(X, X[:2], W, 1e-6)
    heads = torch.zeros(3, 2, 8, dtype=torch.bfloat16)
    with pytest.raises(ValueError, match=r"gate must be \[T, H, D\] = \[3, 2, 8\], got \[3, 1, 8"):
        gated_rms_norm(heads, heads[:, :1], W, 1e-6)


def test_two_devices_are_refused_with_a_list():
    with pytest.raises(ValueError, match="got x on cpu, weight on meta; "):
        rms_norm(X, W.to("meta"), 1e-6)
    with pytest.raises(ValueError, match="x on cpu, weight on cpu, out on meta"):
        rms_norm(X, W, 1e-6, out=X.to("meta"))


def test_an_output_of_another_shape_is_refused():
    with pytest.raises(ValueError, match=r"out must be \[T, D\] = \[3, 8\], got \[4, 8\]"):
        rms_norm(X, W, 1e-6, out=torch.zeros(4, 8, dtype=torch.bfloat16))


def test_a_call_of_no_rows_returns_no_rows():
    assert rms_norm(X[:0], W, 1e-6, tile=NormTile(4, 1)).shape == (0, 8)


def test_a_gpus_tensor_that_begins_between_two_loads_is_refused(on_gpu):
    axes, whole = Axes("f"), torch.zeros(8, dtype=torch.bfloat16)
    axes.aligned(16, x=whole, y=whole[:4])
    axes.aligned(8, x=whole[4:])
    with pytest.raises(ValueError, match=r"^f: y starts at 0x\w+8, expected a multiple of 16 byt"):
        axes.aligned(16, x=whole, y=whole[4:])


def test_on_a_cpu_a_tensor_begins_anywhere():
    Axes("f").aligned(16, x=W[1:])
