"""Products of many rows refuse what they cannot compute, and compute it on a CPU without Triton."""

from dataclasses import replace

import pytest
import torch

from kernels.linear import middle_tile as tiles
from kernels.linear.expand import expand, expanded_linear
from kernels.linear.middle import middle_linear
from kernels.linear.middle_tile import MiddleTile
from kernels.linear.pack import pack_bf16, pack_fp8_block, pack_nvfp4
from kernels.linear.prefill_fp8 import PrefillTile, fp8_prefill_linear
from kernels.linear.reference import dequantise
from kernels.linear.requantise import requantise

WEIGHT = pack_bf16(torch.ones(40, 130, dtype=torch.bfloat16))
BLOCKS = pack_fp8_block(
    torch.ones(40, 130).to(torch.float8_e4m3fn), torch.ones(1, 2, dtype=torch.bfloat16)
)
X = torch.ones(3, 130, dtype=torch.bfloat16)
GOOD = MiddleTile(64, 64, 4, 3)


@pytest.mark.parametrize("product", [middle_linear, expanded_linear])
def test_a_cpu_gets_the_reference(product):
    out = torch.full((3, 40), float("nan"), dtype=torch.bfloat16)
    assert product(X, BLOCKS, out=out) is out
    assert torch.equal(out, torch.nn.functional.linear(X, dequantise(BLOCKS)))
    assert torch.equal(product(X, BLOCKS), out)


@pytest.mark.parametrize("product", [middle_linear, expanded_linear, fp8_prefill_linear])
def test_rows_of_another_width_are_refused(product):
    with pytest.raises(ValueError, match=r"x must be \[T, K\] = \[any, 130\].*pass the rows"):
        product(X[:, :128], BLOCKS)


@pytest.mark.parametrize("product", [middle_linear, expanded_linear, fp8_prefill_linear])
def test_rows_of_another_dtype_are_refused(product):
    with pytest.raises(TypeError, match="x must be bfloat16"):
        product(X.float(), BLOCKS)


@pytest.mark.parametrize("product", [middle_linear, fp8_prefill_linear])
def test_an_output_of_another_width_is_refused(product):
    with pytest.raises(ValueError, match=r"out must be \[T, N\] = \[3, 40\], got \[3, 41\]"):
        product(X, BLOCKS, out=torch.empty(3, 41, dtype=torch.bfloat16))


def test_no_rows_give_no_rows():
    assert middle_linear(X[:0], WEIGHT).shape == (0, 40)
    assert fp8_prefill_linear(X[:0], BLOCKS).shape == (0, 40)


def test_expansion_refuses_a_buffer_that_is_too_small():
    with pytest.raises(ValueError, match="buffer must hold N \\* K = 5200 elements, got 5199"):
        expanded_linear(X, BLOCKS, buffer=torch.empty(5199, dtype=torch.bfloat16))


def test_expansion_refuses_an_output_of_another_shape():
    with pytest.raises(ValueError, match=r"out must be \[N, K\] = \[40, 130\]"):
        expand(BLOCKS, torch.empty(40, 131, dtype=torch.bfloat16))


def test_a_bf16_weight_is_expanded_as_a_view_of_itself():
    assert expand(WEIGHT).data_ptr() == WEIGHT.values.data_ptr()


def test_the_fp8_option_takes_weights_of_4_and_8_bits_only():
    with pytest.raises(TypeError, match="of 4 or 8 bits, got Bf16Weight; use middle_linear"):
        fp8_prefill_linear(X, WEIGHT)
    with pytest.raises(ValueError, match="spans two block scales"):
        fp8_prefill_linear(X, BLOCKS, tile=PrefillTile(tile_n=256))


def four_bits(N: int, K: int):
    codes = torch.full((N, K // 2), 0x32, dtype=torch.uint8)
    scales = torch.full((N, K // 16), 3.0).to(torch.float8_e4m3fn)
    return pack_nvfp4(codes, scales, torch.tensor(0.5))


def test_a_4_bit_weight_is_rounded_where_the_caller_says():
    weight, x = four_bits(40, 144), torch.ones(3, 144, dtype=torch.bfloat16)
    buffer = torch.zeros(40 * 128, dtype=torch.bfloat16)
    out = fp8_prefill_linear(x, weight, buffer=buffer)
    # codes 1 and 1.5, scale 3, multiplier 1/2: 72 pairs of 1.5 and 2.25
    assert torch.equal(out, torch.full((3, 40), 72 * 3.75, dtype=torch.bfloat16))
    assert buffer.view(torch.uint8).any()
    with pytest.raises(ValueError, match=r"N \* Kp / 2 = 5120 elements, got 5119"):
        fp8_prefill_linear(x, weight, buffer=buffer[1:])


def test_rounded_codes_have_their_place():
    weight = four_bits(40, 144)
    with pytest.raises(ValueError, match=r"codes must be \[N, Kp\] = \[40, 256\]"):
        requantise(weight, torch.empty(40, 144).to(torch.float8_e4m3fn))
    with pytest.raises(TypeError, match="codes must be float8_e4m3fn"):
        requantise(weight, torch.empty(40, 256, dtype=torch.bfloat16))


@pytest.mark.parametrize(
    "wrong",
    [
        {"tile_n": 96}, {"tile_t": 512}, {"num_warps": 2}, {"num_stages": 0},
        {"tile_n": 256, "tile_t": 256}, {"splits": 0}, {"splits": 3}, {"whole": 32},
        {"whole": 64}, {"tile_n": 256, "fold_scale": False},
    ],
    ids=str,
)  # fmt: skip
def test_a_tile_that_cannot_compute_the_product_is_refused(monkeypatch, wrong):
    monkeypatch.setattr("kernels.common.interpreter.is_installed", lambda: True)
    tile = replace(GOOD, **wrong)
    assert tiles.fits(GOOD, "fp8_block", 40, 2)
    assert not tiles.fits(tile, "fp8_block", 40, 2)
    with pytest.raises(ValueError, match=r"does not fit fp8_block with N = 40, Kp = 256; take one"):
        middle_linear(X, BLOCKS, tile=tile)


def test_offsets_within_a_tile_stay_in_32_bits(monkeypatch):
    monkeypatch.setattr("kernels.common.interpreter.is_installed", lambda: True)
    far = torch.empty(1, dtype=torch.bfloat16).expand(1, 130).as_strided((1, 130), (2**25, 0))
    with pytest.raises(ValueError, match="stride"):
        middle_linear(far, WEIGHT, tile=GOOD)
