"""What packing keeps, what it rearranges, what it refuses, and what it does not copy."""

import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.common.compare import different_bits
from kernels.linear.pack import (
    fuse,
    pack_bf16,
    pack_e4m3_row,
    pack_fp8_block,
    pack_nvfp4,
    unpack_scales,
)
from kernels.linear.reference import dequantise
from kernels.linear.weight import num_outputs, padded_inputs

E4M3 = torch.float8_e4m3fn
DAMAGED = "the file is damaged or was quantised without saturation; take it from its source again"
ROWS = [1, 7, 16, 17, 100]
INPUTS = [16, 48, 128, 160, 256, 5120]


def e4m3(shape, generator, limit=0xFF):
    """Random bytes up to a limit, NaN left out."""
    raw = torch.randint(0, limit, shape, dtype=torch.uint8, generator=generator)
    raw[(raw & 0x7F) == 0x7F] = 0x55
    return raw.view(E4M3)


def bf16_parts(N, K, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn((N, K), generator=generator).bfloat16(),)


def fp8_block_parts(N, K, seed=0):
    generator = torch.Generator().manual_seed(seed)
    scales = torch.rand((-(-N // 128), -(-K // 128)), generator=generator).bfloat16()
    return e4m3((N, K), generator), scales


def e4m3_row_parts(N, K, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return e4m3((N, K), generator), torch.rand(N, generator=generator)


def nvfp4_parts(N, K, seed=0):
    generator = torch.Generator().manual_seed(seed)
    codes = torch.randint(0, 256, (N, K // 2), dtype=torch.uint8, generator=generator)
    return codes, e4m3((N, K // 16), generator, 0x7F), torch.rand((), generator=generator)


FORMATS = {
    "bf16": (pack_bf16, bf16_parts),
    "fp8_block": (pack_fp8_block, fp8_block_parts),
    "e4m3_row": (pack_e4m3_row, e4m3_row_parts),
    "nvfp4": (pack_nvfp4, nvfp4_parts),
}


def packed(name, N, K, seed=0):
    pack, parts = FORMATS[name]
    return pack(*parts(N, K, seed))


def raw(tensor):
    return tensor.contiguous().view(torch.uint8)


@pytest.mark.parametrize("K", INPUTS)
@pytest.mark.parametrize("N", ROWS)
@pytest.mark.parametrize("name", FORMATS)
def test_codes_stay_in_order_and_the_padding_is_zero(name, N, K):
    pack, parts = FORMATS[name]
    given_parts = parts(N, K)
    weight = pack(*given_parts)
    assert (num_outputs(weight), weight.K) == (N, K)
    assert padded_inputs(weight) == -(-K // 128) * 128
    codes = given_parts[0]
    width = codes.shape[1]
    assert weight.codes.is_contiguous()
    assert weight.codes.dtype == codes.dtype
    assert torch.equal(raw(weight.codes[:, :width]), raw(codes))
    assert not raw(weight.codes[:, width:]).any()
    assert (weight.codes.data_ptr() == codes.data_ptr()) == (K % 128 == 0)


@pytest.mark.parametrize("K", INPUTS)
@pytest.mark.parametrize("N", ROWS)
def test_group_scales_come_back_and_their_padding_is_zero(N, K):
    codes, scales, tensor_scale = nvfp4_parts(N, K)
    weight = pack_nvfp4(codes, scales, tensor_scale)
    num_tiles, num_steps = -(-N // 16), -(-K // 128)
    assert weight.scale_runs.shape == (num_tiles, num_steps, 8, 4, 2, 2)
    assert weight.scale_runs.is_contiguous()
    assert weight.scale_runs.dtype == E4M3
    back = unpack_scales(weight)
    assert back.shape == (N, 8 * num_steps)
    assert torch.equal(raw(back[:, : K // 16]), raw(scales))
    assert not raw(back[:, K // 16 :]).any()
    # Nothing but the scales: so the rows past N, which unpacking leaves out, hold zero too.
    assert raw(weight.scale_runs).int().sum() == raw(scales).int().sum()
    assert weight.row_scales.tolist() == [tensor_scale.item()] * N
    assert weight.row_scales.is_contiguous()


def test_scale_runs_are_laid_out_as_the_weight_says():
    codes, scales, tensor_scale = nvfp4_parts(40, 400)
    runs = raw(pack_nvfp4(codes, scales, tensor_scale).scale_runs)
    for index in torch.cartesian_prod(*(torch.arange(size) for size in runs.shape)).tolist():
        tile, step, g, t, half, pair = index
        row, first_input = 16 * tile + 8 * half + g, 128 * step + 32 * t + 16 * pair
        inside = row < 40 and first_input < 400
        want = raw(scales)[row, first_input // 16].item() if inside else 0
        assert runs[tuple(index)] == want


def test_every_bf16_scale_is_held_in_fp32_exactly():
    every = torch.arange(0x7F80, dtype=torch.int16).view(torch.bfloat16)[None]
    codes = torch.zeros((1, 128 * every.shape[1]), dtype=torch.uint8).view(E4M3)
    held = pack_fp8_block(codes, every).scales
    assert held.dtype == torch.float32
    assert held.is_contiguous()
    assert different_bits(held.double(), every.double(), "NK") is None


def test_codes_a_kernel_cannot_read_in_place_are_copied():
    values = torch.randn(4, 512).bfloat16()
    strided = pack_bf16(values[:, :128])
    assert strided.values.is_contiguous()
    assert torch.equal(strided.values, values[:, :128])
    store = torch.randint(0, 256, (3 + 4 * 64,), dtype=torch.uint8)
    for offset in (0, 3):
        codes = store[offset : offset + 4 * 64].view(4, 64)
        weight = pack_nvfp4(codes, torch.ones((4, 8)).to(E4M3), torch.tensor(1.0))
        assert torch.equal(weight.codes, codes)
        assert weight.codes.data_ptr() % 16 == 0
        assert (weight.codes.data_ptr() == codes.data_ptr()) == (offset == 0)


@settings(deadline=None, max_examples=60)
@given(
    name=st.sampled_from(sorted(FORMATS)),
    tiles=st.lists(st.integers(1, 3), min_size=1, max_size=3),
    last=st.integers(1, 200),
    K=st.sampled_from([16, 128, 176, 272]),
    seed=st.integers(0, 2**31),
)
def test_a_fused_weight_holds_its_members_rows(name, tiles, last, K, seed):
    unit = {"fp8_block": 128, "nvfp4": 16}.get(name, 5)
    sizes = [*(unit * count for count in tiles), last]
    members = [packed(name, N, K, seed + index) for index, N in enumerate(sizes)]
    before = [[raw(one).clone() for one in member.tensors()] for member in members]
    together = fuse(members)
    assert type(together) is type(members[0])
    assert num_outputs(together) == sum(sizes)
    want = torch.cat([dequantise(member) for member in members])
    assert different_bits(dequantise(together), want, "NK") is None
    for member, old in zip(members, before, strict=True):
        assert all(torch.equal(raw(a), b) for a, b in zip(member.tensors(), old, strict=True))
    if hasattr(together, "row_scales"):
        assert torch.equal(together.row_scales, torch.cat([one.row_scales for one in members]))


@pytest.mark.parametrize("name", FORMATS)
def test_one_member_alone_is_itself(name):
    weight = packed(name, 7, 48)
    assert fuse([weight]) is weight


def refusal(kind, sentence):
    return pytest.raises(kind, match=f"^{re.escape(sentence)}$")


def test_members_that_cannot_be_joined_are_refused():
    with refusal(
        ValueError, "fuse: got no weights, expected one or more; pass the members in order"
    ):
        fuse([])
    with refusal(
        ValueError,
        "fuse: weights[1] is bf16 with K = 128, expected nvfp4 with K = 128 like weights[0]; "
        "keep them apart",
    ):
        fuse([packed("nvfp4", 16, 128), packed("bf16", 16, 128)])
    with refusal(
        ValueError,
        "fuse: weights[1] is bf16 with K = 160, expected bf16 with K = 256 like weights[0]; "
        "keep them apart",
    ):
        fuse([packed("bf16", 16, 256), packed("bf16", 16, 160)])
    with refusal(
        ValueError,
        "fuse: weights[1] has N = 100, expected a multiple of 128, where the next fp8_block "
        "member's scales can begin; keep them apart",
    ):
        fuse([packed("fp8_block", N, 128) for N in (128, 100, 128)])
    with refusal(
        ValueError,
        "fuse: weights[0] has N = 17, expected a multiple of 16, where the next nvfp4 "
        "member's scales can begin; keep them apart",
    ):
        fuse([packed("nvfp4", N, 128) for N in (17, 16)])


@pytest.mark.parametrize("name", ["fp8_block", "e4m3_row"])
@pytest.mark.parametrize("byte", [0x7F, 0xFF])
@pytest.mark.parametrize("where", [(0, 0), (3, 17), (8, 159)])
def test_a_nan_code_is_refused(name, byte, where):
    pack, parts = FORMATS[name]
    codes, scales = parts(9, 160)
    codes.view(torch.uint8)[where] = byte
    codes.view(torch.uint8)[8, 159] = byte
    sentence = (
        f"pack_{name}: codes{list(where)} is NaN (byte 0x{byte:02x}), expected a number; {DAMAGED}"
    )
    with refusal(ValueError, sentence):
        pack(codes, scales)


@pytest.mark.parametrize(
    ("byte", "shown"), [(0x7F, "nan"), (0xFF, "nan"), (0x80, "-0.0"), (0xB8, "-1.0")]
)
def test_a_group_scale_with_a_sign_or_nan_is_refused(byte, shown):
    codes, scales, tensor_scale = nvfp4_parts(9, 160)
    scales.view(torch.uint8)[4, 7] = byte
    sentence = (
        f"pack_nvfp4: scales[4, 7] is {shown} (byte 0x{byte:02x}), "
        f"expected 0 to 448 with the sign bit clear; {DAMAGED}"
    )
    with refusal(ValueError, sentence):
        pack_nvfp4(codes, scales, tensor_scale)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf"), -0.5])
def test_a_scale_that_is_no_multiplier_is_refused(value):
    codes, blocks = fp8_block_parts(200, 300)
    blocks[1, 2] = value
    tail = f" is {value}, expected a finite number, 0 or more; {DAMAGED}"
    with refusal(ValueError, "pack_fp8_block: scales[1, 2]" + tail):
        pack_fp8_block(codes, blocks)
    codes, rows = e4m3_row_parts(9, 160)
    rows[8] = value
    with refusal(ValueError, "pack_e4m3_row: scales[8]" + tail):
        pack_e4m3_row(codes, rows)
    codes, scales, _ = nvfp4_parts(9, 160)
    with refusal(ValueError, "pack_nvfp4: tensor_scale" + tail):
        pack_nvfp4(codes, scales, torch.tensor(value))


def test_zero_is_a_scale():
    codes, blocks = fp8_block_parts(9, 160)
    assert not dequantise(pack_fp8_block(codes, blocks * 0)).any()
    codes, rows = e4m3_row_parts(9, 160)
    assert not dequantise(pack_e4m3_row(codes, rows * 0)).any()
    codes, scales, _ = nvfp4_parts(9, 160)
    assert not dequantise(pack_nvfp4(codes, scales, torch.tensor(0.0))).any()


def changed(name, index, change):
    pack, parts = FORMATS[name]
    given_parts = list(parts(9, 160))
    given_parts[index] = change(given_parts[index])
    return lambda: pack(*given_parts)


@pytest.mark.parametrize(
    ("call", "kind", "sentence"),
    [
        (changed("bf16", 0, lambda x: x.float()), TypeError,
         "pack_bf16: values must be bfloat16 [N, K], got float32; pass the matrix as bf16 rows"),
        (changed("bf16", 0, lambda x: x[:0]), ValueError,
         ("pack_bf16: values are [0, 160], expected a row and an input at least; "
         "leave the empty matrix out")),
        (changed("fp8_block", 0, lambda x: x.view(torch.uint8)), TypeError,
         ("pack_fp8_block: codes must be float8_e4m3fn [N, K], got uint8; "
         "pass the stored 8-bit codes")),
        (changed("fp8_block", 1, lambda x: x.float()), TypeError,
         ("pack_fp8_block: scales must be bfloat16 [ceil(N/128), ceil(K/128)], got float32; "
         "pass the multipliers stored with these codes")),
        (changed("fp8_block", 1, lambda x: x.t()), ValueError,
         ("pack_fp8_block: scales must be [ceil(N/128), ceil(K/128)] = [1, 2], got [2, 1]; "
         "pass the multipliers stored with these codes")),
        (changed("e4m3_row", 1, lambda x: x[:, None]), ValueError,
         ("pack_e4m3_row: scales must be [N] = [9], got [9, 1]; "
         "pass one multiplier a row, widened to fp32")),
        (changed("nvfp4", 0, lambda x: x[:, :76]), ValueError,
         ("pack_nvfp4: codes [N, K/2] have K = 152, expected a multiple of 16, "
         "the inputs of one scale; pass whole groups of codes")),
        (changed("nvfp4", 1, lambda x: x[:, :9]), ValueError,
         ("pack_nvfp4: scales must be [N, K/16] = [9, 10], got [9, 9]; "
         "pass the group multipliers stored with these codes, not swizzled")),
        (changed("nvfp4", 2, lambda x: x[None]), ValueError,
         ("pack_nvfp4: tensor_scale must be [], got [1]; "
         "pass the one multiplier of the tensor as a scalar")),
        (changed("nvfp4", 2, lambda x: x.to("meta")), ValueError,
         ("pack_nvfp4: all tensors must be on one device, got codes on cpu, scales on cpu, "
         "tensor_scale on meta; move them to the device of the first")),
    ],
)  # fmt: skip
def test_foreign_tensors_are_refused(call, kind, sentence):
    with refusal(kind, sentence):
        call()
