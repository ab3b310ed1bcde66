"""Sums of a round's rows compile for both GPUs, and leave the next product's blocks their room."""

import pytest
import torch

from kernels.common.compile import mnemonics_of, usage_of
from kernels.norm import rows_launch
from kernels.norm.rows_launch import THREADS, WORD, cubin, splits_of
from tests.kernels.compiling import bases, loads_before_wait

CAPABILITIES = {90: (9, 0), 121: (12, 1)}
HIDDEN_WIDTHS = (256, 1024, 2048, 2560, 4096, 5120)
REGISTERS_OF_A_SCHEDULER = 16_384
OF_A_PRODUCT = 5 * 32 * 72
"""Registers that a product of 16 rows of the 27B takes there: five warps."""


@pytest.fixture(
    scope="module",
    params=[(width, one) for width in HIDDEN_WIDTHS for one in CAPABILITIES.values()],
    ids=str,
)
def binary(request) -> bytes:
    return cubin(*request.param)


def test_nothing_is_kept_in_local_memory_and_a_block_fits_beside_a_products(binary):
    usage = usage_of(binary)
    assert usage["LOCAL"] == usage["STACK"] == 0
    registers = -(-usage["REG"] // 8) * 8 * 32
    assert OF_A_PRODUCT + THREADS // 128 * registers <= REGISTERS_OF_A_SCHEDULER


def test_sums_have_the_order_of_the_source_and_are_not_contracted(binary):
    counts = bases(mnemonics_of(binary))
    assert not counts.keys() & {"RED", "ATOM", "ATOMG", "ATOMS", "REDG"}
    assert counts["BAR"] == 1


def test_x_alone_is_read_after_the_predecessor_has_ended(binary):
    names = mnemonics_of(binary)
    assert names["PREEXIT"] == names["ACQBULK"] == 1
    loads = {name: number for name, number in names.items() if name.startswith("LDG")}
    assert loads.keys() == {"LDG.E.128.STRONG.GPU"}, "rows come from the second-level cache"
    before = loads_before_wait(binary)
    assert sum(loads.values()) - before == before - 1, "as many of x as of the residual; the weight"


@pytest.mark.parametrize("width", range(128, rows_launch.MOST_INPUTS + 1, 128))
def test_blocks_of_a_row_write_whole_words_a_thread_each(width):
    splits = splits_of(width)
    assert width % (WORD * splits) == 0
    assert width // WORD // splits <= THREADS


@pytest.mark.parametrize("name", ["out", "residual_out"])
def test_rows_that_are_written_over_are_left_to_the_other_kernel(name, monkeypatch):
    rows = {one: torch.zeros(4, 256).bfloat16() for one in ("x", "residual", "out", "residual_out")}
    weight = torch.zeros(256).bfloat16()
    monkeypatch.setattr(torch.Tensor, "is_cuda", True)
    apart = {**rows, "weight": weight}
    assert rows_launch.takes(**apart)
    assert not rows_launch.takes(**{**apart, name: rows["x"]})
    assert not rows_launch.takes(**{**apart, name: rows["residual"]})
