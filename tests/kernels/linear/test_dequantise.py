"""What packed weights mean: every code times every scale, and what the device decodes rest on."""

import math

import pytest
import torch

from kernels.common.compare import Tolerance, beyond_tolerance, different_bits
from kernels.linear.formats import E2M1_VALUES
from kernels.linear.pack import fuse, pack_bf16, pack_e4m3_row, pack_fp8_block, pack_nvfp4
from kernels.linear.reference import (
    dequantise,
    e4m3_row_dequantise,
    exact_values,
    fp8_block_dequantise,
    nvfp4_dequantise,
)

E4M3 = torch.float8_e4m3fn
SIZES = [(1, 16), (17, 160), (100, 48), (300, 272), (1100, 128)]
ROUNDINGS = Tolerance(2.0**-8 + 2.0**-22, 0.0, "one rounding to bf16, at most two to fp32 before")
NUM_BF16 = 0x7F80
"""Finite bf16 numbers without a sign, zero with them: bits 0 to 0x7f7f."""


def every_code():
    """All 256 bytes of e4m3, the two NaNs replaced by one, [256]."""
    raw = torch.arange(256, dtype=torch.uint8)
    raw[[0x7F, 0xFF]] = 0x38
    return raw.view(E4M3)


def every_group_scale():
    """The 127 finite e4m3 numbers without a sign."""
    return torch.arange(0x7F, dtype=torch.uint8).view(E4M3)


def e2m1_values():
    """What the 16 codes mean, fp64."""
    return torch.tensor([*E2M1_VALUES, *(-one for one in E2M1_VALUES)], dtype=torch.float64)


def nvfp4_of_every_pair(tensor_scale):
    """127 rows, one a scale, of all 256 bytes: every code in both nibbles with every scale."""
    codes = torch.arange(256, dtype=torch.uint8).expand(127, 256).contiguous()
    scales = every_group_scale().view(torch.uint8)[:, None].expand(127, 32).contiguous().view(E4M3)
    return pack_nvfp4(codes, scales, torch.tensor(tensor_scale))


def random_parts(N, K):
    generator = torch.Generator().manual_seed(N * K)
    codes = every_code()[torch.randint(0, 256, (N, K), generator=generator)]
    nibbles = torch.randint(0, 256, (N, K // 2), dtype=torch.uint8, generator=generator)
    groups = every_group_scale()[torch.randint(0, 127, (N, K // 16), generator=generator)]
    blocks = torch.rand((-(-N // 128), -(-K // 128)), generator=generator).bfloat16()
    return codes, blocks, torch.rand(N, generator=generator), nibbles, groups


@pytest.mark.parametrize(("N", "K"), SIZES)
def test_a_packed_weight_dequantises_to_the_bits_of_the_checkpoints_tensors(N, K):
    codes, blocks, rows, nibbles, groups = random_parts(N, K)
    scalar = torch.tensor(3.1e-5)
    pairs = [
        (pack_fp8_block(codes, blocks), fp8_block_dequantise(codes, blocks)),
        (pack_e4m3_row(codes, rows), e4m3_row_dequantise(codes, rows)),
        (pack_nvfp4(nibbles, groups, scalar), nvfp4_dequantise(nibbles, groups, scalar)),
        (pack_bf16(codes.bfloat16()), codes.bfloat16()),
    ]
    for weight, want in pairs:
        assert different_bits(dequantise(weight), want, "NK") is None


@pytest.mark.parametrize(("N", "K"), SIZES)
def test_exact_values_look_up_the_scale_of_their_own_coordinates(N, K):
    codes, blocks, rows, nibbles, groups = random_parts(N, K)
    wide = blocks.double().repeat_interleave(128, 0).repeat_interleave(128, 1)[:N, :K]
    got = exact_values(pack_fp8_block(codes, blocks))
    assert different_bits(got, codes.double() * wide, "NK") is None
    got = exact_values(pack_e4m3_row(codes, rows))
    assert different_bits(got, codes.double() * rows.double()[:, None], "NK") is None
    got = exact_values(pack_bf16(codes.bfloat16()))
    assert different_bits(got, codes.double(), "NK") is None
    scalar = torch.tensor(3.1e-5)
    unscaled = e2m1_values()[torch.stack((nibbles & 15, nibbles >> 4), -1).flatten(1).long()]
    want = unscaled * groups.double().repeat_interleave(16, 1) * scalar.double()
    got = exact_values(pack_nvfp4(nibbles, groups, scalar))
    assert different_bits(got, want, "NK") is None


@pytest.mark.parametrize(("N", "K"), SIZES)
def test_dequantising_stays_within_its_roundings_of_the_exact_values(N, K):
    codes, blocks, rows, nibbles, groups = random_parts(N, K)
    weights = [
        pack_fp8_block(codes, blocks),
        pack_e4m3_row(codes, rows),
        pack_nvfp4(nibbles, groups, torch.tensor(3.1e-5)),
    ]
    for weight in weights:
        assert beyond_tolerance(dequantise(weight), exact_values(weight), ROUNDINGS, "NK") is None


def test_every_8_bit_code_times_every_bf16_scale():
    scales = torch.arange(NUM_BF16, dtype=torch.int16).view(torch.bfloat16)
    codes = every_code()
    for some in scales.split(4096):
        tiled = codes.view(torch.uint8).expand(len(some), 256).contiguous().view(E4M3)
        weight = pack_e4m3_row(tiled, some.float())
        want = some.double()[:, None] * codes.double()
        assert different_bits(exact_values(weight), want, "NK") is None
        # 4 significant bits times 8: fp32 holds the product, so only bf16 rounds it.
        normal = (want == 0) | ((want.abs() >= 2.0**-126) & (want.abs() < 2.0**128))
        got, once = dequantise(weight), want.float().bfloat16()
        assert torch.equal(want[normal].float().double(), want[normal])
        assert torch.equal(got[normal], once[normal])


@pytest.mark.parametrize("scale", [0.0, 2.0**-133, 2.0**-126, 0.0123, 1.0, 3.0e38])
def test_every_8_bit_code_in_a_block(scale):
    codes = every_code().view(torch.uint8).expand(130, 256).contiguous().view(E4M3)
    scales = torch.tensor([[scale, 1.0], [1.0, scale]]).bfloat16()
    weight = pack_fp8_block(codes, scales)
    want = codes.double()
    want[:128, :128] *= scales[0, 0].double()
    want[128:, 128:] *= scales[1, 1].double()
    assert different_bits(exact_values(weight), want, "NK") is None
    assert different_bits(dequantise(weight), fp8_block_dequantise(codes, scales), "NK") is None


@pytest.mark.parametrize("tensor_scale", [1.0, 2.0**-14, 1.7e-4, 1e-30, 0.0])
def test_every_4_bit_code_in_both_nibbles_times_every_scale(tensor_scale):
    weight = nvfp4_of_every_pair(tensor_scale)
    byte = torch.arange(256)
    codes = torch.stack((e2m1_values()[byte % 16], e2m1_values()[byte // 16]), -1).flatten()
    multiplier = torch.tensor(tensor_scale).double()
    want = codes * every_group_scale().double()[:, None] * multiplier
    got = exact_values(weight)
    assert different_bits(got, want, "NK") is None
    if tensor_scale in (1.0, 2.0**-14):
        assert torch.equal(dequantise(weight).double(), want)


def test_a_4_bit_product_has_6_significant_bits_and_fp16_holds_it():
    products = exact_values(nvfp4_of_every_pair(1.0))
    mantissa, _ = torch.frexp(products)
    assert torch.equal(mantissa * 64, (mantissa * 64).round())
    assert not torch.equal(mantissa * 32, (mantissa * 32).round())
    assert torch.equal(products.half().double(), products)
    assert products.abs().max() == 2688
    assert products[products != 0].abs().min() == 2.0**-10
    assert torch.equal(products.bfloat16().double(), products)


def test_a_4_bit_code_moved_into_an_e4m3_byte_is_its_value_over_64():
    code = torch.arange(16, dtype=torch.uint8)
    moved = ((code & 8) << 4) | ((code & 7) << 2)
    assert different_bits(moved.view(E4M3).double(), e2m1_values() * 2.0**-6, "K") is None
    assert different_bits(moved.view(E4M3).half().double(), e2m1_values() * 2.0**-6, "K") is None


def test_the_64_is_given_back_by_the_scale_without_rounding():
    scales = every_group_scale().half()
    raised = scales * 64
    assert torch.equal(raised.double(), every_group_scale().double() * 64)
    assert raised.max() == 28672
    lowered = (e2m1_values() * 2.0**-6).half()
    got = raised[:, None] * lowered
    assert got.dtype == torch.float16
    want = every_group_scale().double()[:, None] * e2m1_values()
    assert different_bits(got.double(), want, "NK") is None


def test_members_keep_their_own_multiplier():
    codes = torch.full((16, 64), 0x22, dtype=torch.uint8)
    ones = torch.ones((16, 8)).to(E4M3)
    members = [pack_nvfp4(codes, ones, torch.tensor(value)) for value in (0.5, 3.0)]
    values = exact_values(fuse(members))
    assert values[:16].unique().tolist() == [0.5]
    assert values[16:].unique().tolist() == [3.0]


def test_padding_is_no_part_of_the_values():
    weight = pack_bf16(torch.ones(3, 130).bfloat16())
    assert weight.values.shape == (3, 256)
    assert dequantise(weight).shape == exact_values(weight).shape == (3, 130)
    assert math.isclose(exact_values(weight).sum().item(), 390)
