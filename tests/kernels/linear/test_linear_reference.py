"""What the formats decode to, value by value, and rows that do not know each other."""

import pytest
import torch

from kernels.common.compare import different_bits
from kernels.linear.reference import (
    e4m3_row_dequantise,
    e4m3_values,
    fp8_block_dequantise,
    linear_rows_reference,
    logits_reference,
    nvfp4_dequantise,
)


def test_all_8_bit_codes_widen_to_torchs_values():
    codes = torch.arange(256, dtype=torch.uint8).view(torch.float8_e4m3fn).view(16, 16)
    assert torch.equal(e4m3_values(codes).nan_to_num(7e7), codes.float().nan_to_num(7e7))
    assert e4m3_values(codes).isnan().sum() == 2


@pytest.mark.parametrize("shape", [(128, 128), (260, 136), (1, 1), (127, 300)])
def test_every_element_of_a_block_has_its_blocks_scale(shape):
    generator = torch.Generator().manual_seed(0)
    codes = (torch.randn(shape, generator=generator) * 90).to(torch.float8_e4m3fn)
    blocks = tuple(-(-size // 128) for size in shape)
    scales = (torch.rand(blocks, generator=generator) + 0.01).bfloat16()
    got = fp8_block_dequantise(codes, scales)
    for row, column in [(0, 0), (shape[0] - 1, shape[1] - 1), (shape[0] // 2, shape[1] // 3)]:
        want = codes[row, column].float() * scales[row // 128, column // 128].float()
        assert got[row, column] == want.bfloat16()
    wide = torch.kron(scales.float(), torch.ones(128, 128))[: shape[0], : shape[1]]
    assert different_bits(got, (codes.float() * wide).bfloat16(), "NK") is None


def test_all_4_bit_codes_decode_low_nibble_first():
    codes = torch.tensor([[0x10, 0x32, 0x54, 0x76, 0x98, 0xBA, 0xDC, 0xFE]], dtype=torch.uint8)
    scales = torch.tensor([[2.0]]).to(torch.float8_e4m3fn)
    values = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
    want = torch.tensor([[*values, *(-one for one in values)]])
    got = nvfp4_dequantise(codes, scales, torch.tensor(0.25))
    assert torch.equal(got.float(), want * 0.5)


def test_each_group_of_16_has_its_own_scale():
    codes = torch.full((1, 16), 0x22, dtype=torch.uint8)
    scales = torch.tensor([[1.0, 448.0]]).to(torch.float8_e4m3fn)
    got = nvfp4_dequantise(codes, scales, torch.tensor(1.0)).float()
    assert got[0].tolist() == [1.0] * 16 + [448.0] * 16


def test_each_row_has_its_own_scale():
    codes = torch.ones(3, 4).to(torch.float8_e4m3fn)
    got = e4m3_row_dequantise(codes, torch.tensor([1.0, 2.0, 0.5]))
    assert got[:, 0].tolist() == [1.0, 2.0, 0.5]


@pytest.mark.parametrize("num_rows", [0, 1, 2, 17, 32])
@pytest.mark.parametrize(("N", "K"), [(131, 72), (768, 256), (8200, 64)])
def test_a_row_has_the_bits_of_that_row_alone(num_rows: int, N: int, K: int):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn((num_rows, K), generator=generator).bfloat16()
    weight = torch.randn((N, K), generator=generator).bfloat16()
    for function, dtype in ((linear_rows_reference, torch.bfloat16), (logits_reference, None)):
        together = function(x, weight)
        assert together.shape == (num_rows, N)
        assert together.dtype == (dtype or torch.float32)
        for row in range(num_rows):
            alone = function(x[row : row + 1], weight)
            assert different_bits(together[row : row + 1], alone, "TN") is None


@pytest.mark.parametrize(("N", "K"), [(131, 72), (6144, 256), (8200, 64)])
def test_a_head_that_is_widened_before_has_the_bits_of_one_that_is_not(N: int, K: int):
    generator = torch.Generator().manual_seed(3)
    x = torch.randn((3, K), generator=generator).bfloat16()
    weight = torch.randn((N, K), generator=generator).bfloat16()
    wide = logits_reference(x, weight.float())
    assert different_bits(wide, logits_reference(x, weight), "TV") is None


def test_logits_are_not_rounded_to_bf16():
    generator = torch.Generator().manual_seed(2)
    x = torch.randn((2, 256), generator=generator).bfloat16()
    weight = torch.randn((8200, 256), generator=generator).bfloat16()
    got = logits_reference(x, weight)
    truth = x.double() @ weight.double().t()
    assert (got - truth).abs().max() < 1e-4
    assert not torch.equal(got, got.bfloat16().float())
