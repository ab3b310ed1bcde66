"""The 4-bit grid: every value, every tie, and codes that come back as they were."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from engine.quantize.grid import by_search, decode, encode, pack, places, unpack, values
from kernels.linear.formats import E2M1_VALUES
from kernels.linear.reference import nvfp4_dequantise

GRID = torch.tensor(sorted({*E2M1_VALUES, *(-one for one in E2M1_VALUES)}))
finite = st.floats(-1e4, 1e4, width=32)


def rounded(x: torch.Tensor) -> torch.Tensor:
    return values(places(x))


@given(st.lists(finite, min_size=1, max_size=64))
def test_a_number_is_rounded_to_the_nearest_value(numbers):
    x = torch.tensor(numbers)
    least = (x[:, None] - GRID).abs().amin(1)
    assert torch.equal((x - rounded(x)).abs(), least)


@given(st.lists(finite, min_size=1, max_size=64))
def test_codes_decode_to_what_was_rounded(numbers):
    found = places(torch.tensor(numbers))
    assert torch.equal(decode(encode(found)), values(found))


@given(st.lists(finite, min_size=1, max_size=64))
def test_search_and_table_agree(numbers):
    x = torch.tensor(numbers)
    eighths = torch.arange(-80, 81) / 8
    beside = [torch.nextafter(eighths, torch.tensor(to)) for to in (-1e9, 1e9)]
    every = torch.cat((x, eighths, *beside))
    assert torch.equal(places(every), by_search(every))


def test_halfway_goes_to_the_even_code():
    middle = (torch.tensor(E2M1_VALUES[:-1]) + torch.tensor(E2M1_VALUES[1:])) / 2
    assert encode(places(middle)).tolist() == [0, 2, 2, 4, 4, 6, 6]
    assert encode(places(-middle)).tolist() == [0, 10, 10, 12, 12, 14, 14]


def test_no_code_is_a_negative_zero():
    assert encode(places(torch.tensor([-0.0, -0.1, 0.1]))).tolist() == [0, 0, 0]


@given(st.integers(1, 5), st.integers(1, 4), st.randoms(use_true_random=False))
def test_packing_loses_nothing(num_rows, num_groups, random):
    codes = torch.tensor(
        [[random.randrange(16) for _ in range(16 * num_groups)] for _ in range(num_rows)],
        dtype=torch.uint8,
    )
    assert torch.equal(unpack(pack(codes)), codes)


def test_codes_mean_what_the_loader_reads():
    codes = torch.arange(16, dtype=torch.uint8)[None]
    one = torch.ones((1, 1)).to(torch.float8_e4m3fn)
    read = nvfp4_dequantise(pack(codes), one, torch.tensor(1.0))
    assert torch.equal(read.float(), decode(codes))
