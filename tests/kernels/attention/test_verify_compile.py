"""Every launch of decode and verify attention fits the GPUs it is meant for; no GPU is needed."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import product

import pytest

from kernels.attention import combine_tile, verify_launch
from kernels.attention.chunks import num_chunks
from kernels.attention.verify_tile import RESERVED, SHARED_OF_AN_SM, VerifyTile, default, row_groups
from kernels.common.compile import mnemonics_of, usage_of
from kernels.common.cuda_kernel import FREE_SHARED_BYTES
from kernels.common.round import MAX_ROWS
from kernels.common.shared_memory import MAX_SHARED_BYTES
from tests.kernels.compiling import bases

SHARES = (4, 6)
REGISTERS_OF_AN_SM = 65_536
MERGES = {
    combine_tile.default(24 * rows, num_chunks(context), num_sms)
    for rows in (1, MAX_ROWS)
    for context in (1024, 2048, 4096, 32_768)
    for num_sms in (48, 132)
}
SMALL = [
    *(("combine", tuple(one.macros(kv_bytes).items())) for one in MERGES for kv_bytes in (2, 1)),
    ("compact", (("KV_BYTES", 2),)),
    ("compact", (("KV_BYTES", 1),)),
]


def launched() -> list[tuple[int, int, VerifyTile]]:
    """GPU, query heads a KV head and tile of every launch of 1 to 32 rows, each once."""
    found = {}
    for capability in (90, 121):
        for share in SHARES:
            for rows in range(1, MAX_ROWS + 1):
                for context, kv_bytes in product((1024, 2048, 32_768), (2, 1)):
                    parts = row_groups(rows, share, capability, context, kv_bytes)
                    assert parts.number * parts.rows >= rows
                    tile = default(parts.rows, share, capability, context, kv_bytes)
                    assert tile.m_tiles * 16 >= parts.rows * share
                    assert tile.kv_bytes == kv_bytes
                    found[capability, share, tile] = None
    return list(found)


LAUNCHED = launched()


def is_compiled(share: int, tile: VerifyTile) -> bool:
    if tile.kv_bytes == 1:
        return share == 6 and tile.m_tiles not in (4, 5)
    return share == 6 or tile.m_tiles == 4


COMPILED = [one for one in LAUNCHED if is_compiled(one[1], one[2])]
"""All of the 27B and the demo; of the siblings the tile of 16 rows; of codes not those between 8
and 16 rows, which have the registers of 16. A second each."""


@dataclass(frozen=True)
class Facts:
    usage: dict[str, int]
    mnemonics: Counter[str]


@pytest.fixture(scope="module")
def facts() -> dict:
    def compiled(one):
        capability, share, tile = one
        choices = tuple(tile.macros(share).items())
        cubin = verify_launch.cubin(tile.kernel, choices, True, divmod(capability, 10))
        return Facts(usage_of(cubin), mnemonics_of(cubin))

    with ThreadPoolExecutor(2) as pool:
        return dict(zip(COMPILED, pool.map(compiled, COMPILED), strict=True))


def test_shared_memory_is_within_a_blocks_and_a_multiprocessors():
    for capability, _, tile in LAUNCHED:
        assert tile.fits(capability), tile
        assert tile.shared_bytes <= MAX_SHARED_BYTES[capability]
        assert tile.per_sm * (tile.shared_bytes + RESERVED) <= SHARED_OF_AN_SM[capability]


def test_warps_multiply_together_on_sm_90_alone():
    assert {tile.wide for capability, _, tile in LAUNCHED if capability != 90} == {False}
    assert {tile.wide for capability, _, tile in LAUNCHED if capability == 90} == {False, True}


def test_sixteen_rows_of_the_27b_read_a_long_context_once_on_a_large_gpu():
    assert row_groups(16, 6, 90, 32_768).number == 1
    assert row_groups(16, 6, 90, 1024).number == 2, "blocks for more multiprocessors"


def test_rows_of_a_class_where_blocks_have_two_chunks_go_in_groups_of_one_wide_product():
    for rows in range(1, MAX_ROWS + 1):
        parts = row_groups(rows, 6, 90, 2048)
        assert parts.rows * 6 <= 64
        assert parts.number * parts.rows >= rows
    assert row_groups(32, 6, 90, 2048).number == 4
    assert row_groups(32, 6, 90, 2048, 1).number == 2, "codes are widened by all warps of a block"


def test_what_is_under_way_of_a_long_context_fills_no_ring_and_takes_all_of_the_bandwidth():
    for capability, _, tile in LAUNCHED:
        in_measure = tile.under_way < tile.units
        assert tile.behind <= tile.units
        if in_measure:
            assert capability == 90
            bytes_under_way = tile.under_way * tile.streams * tile.unit * 512
            assert 40 << 10 <= bytes_under_way <= 96 << 10
        else:
            assert tile.behind == 0
    assert default(1, 6, 90, 32_768).under_way < default(1, 6, 90, 32_768).units
    assert default(1, 6, 90, 1024).under_way >= default(1, 6, 90, 1024).units


def test_nothing_is_spilled_and_the_registers_are_there(facts):
    for (capability, share, tile), found in facts.items():
        assert found.usage["LOCAL"] == 0, (capability, share, tile)
        # sm_121 passes a tensor map's address through 8 bytes of stack, and leaves one number there
        # from the start of a chunk to its end
        most = 16 if capability == 121 else 0
        assert found.usage["STACK"] <= most, (capability, share, tile)
        warps = -(-tile.threads // 128) * 4  # a block's warps are counted in fours
        of_a_thread = -(-found.usage["REG"] // 8) * 8
        assert of_a_thread * 32 * warps <= REGISTERS_OF_AN_SM, (capability, share, tile)


def test_registers_move_to_the_warps_that_compute_where_a_warp_has_the_sums_of_all_rows(facts):
    for (capability, share, tile), found in facts.items():
        moved = any(name.startswith("USETMAXREG") for name in found.mnemonics)
        many = tile.m_tiles >= 4 if tile.kv_bytes == 1 else tile.wide and tile.m_tiles > 4
        assert moved == many == (tile.threads == 384), (capability, share, tile)


def test_one_shape_of_product_adds_sixteen_at_each_step_of_any_row_count(facts):
    for one, found in facts.items():
        names = found.mnemonics
        together = {"HGMMA.64"} if one[2].wide else set()
        shapes = {name for name in names if "MMA" in name}
        assert shapes == {"HMMA.16816.F32.BF16"} | together, one
        assert names["UTMALDG.4D"] > 0, one
        widened = sum(names[name] for name in names if "E4M3" in name)
        assert (widened > 0) == (one[2].kv_bytes == 1), one
        assert not bases(names).keys() & {"RED", "ATOM", "ATOMG", "REDG"}, one


@pytest.mark.parametrize("capability", [90, 121])
@pytest.mark.parametrize(("kernel", "choices"), SMALL)
def test_small_kernels_spill_nothing(kernel, choices, capability):
    usage = usage_of(verify_launch.cubin(kernel, choices, True, divmod(capability, 10)))
    assert usage["LOCAL"] == usage["STACK"] == 0


def test_merges_need_no_leave_for_shared_memory():
    for one in MERGES:
        assert one.shared_bytes(num_chunks(262_144) + 1) <= FREE_SHARED_BYTES


def test_a_source_compiles_without_overlap():
    tiles = (default(1, 6, 90, 1024), default(1, 6, 90, 1024, 1))
    verify = [(tile.kernel, tuple(tile.macros(6).items())) for tile in tiles]
    for kernel, own in (*verify, *SMALL):
        names = mnemonics_of(verify_launch.cubin(kernel, own, False, (9, 0)))
        assert not any(name.startswith("ACQBULK") for name in names)
