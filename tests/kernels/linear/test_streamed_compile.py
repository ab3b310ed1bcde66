"""Launches past which activations stream keep their matrix instructions in flight, and soundly.

Compiled for sm_90a without a GPU.
"""

import re
from functools import cache

import pytest

from kernels.common.compile import disassembly_of, mnemonics_of, usage_of
from kernels.linear import skinny_launch
from kernels.linear.skinny_launch import ADD_RESIDUAL, SILU_PAIR, STORE
from kernels.linear.tile import SkinnyProblem, SkinnyTile
from kernels.linear.tile_choice import candidates
from tests.kernels.compiling import bases

PRODUCTS = ((34816, 5120), (16384, 5120), (5120, 17408), (1024, 5120))
PAIRS = ((34816, 5120), (7168, 2560))
"""Gate over up, of the 27B, and of so few outputs that several blocks may share K."""

STEP_PRODUCTS = 8
"""Matrix instructions of a step of 128 inputs."""


def streamed(problem: SkinnyProblem) -> list[SkinnyTile]:
    """One tile for each number of blocks that share K, which is another form of the tree.

    And one for tiles that are left over.
    """
    found = candidates(problem, (9, 0))
    return list({(one.splits, one.finishers): one for one in found if one.is_streamed}.values())


PROBLEMS = [
    SkinnyProblem(N, K, "nvfp4", rows, paired)
    for paired, sizes in ((False, PRODUCTS), (True, PAIRS))
    for N, K in sizes
    for rows in (24, 32)
]
CASES = [(problem, tile) for problem in PROBLEMS for tile in streamed(problem)]
IN_FLIGHT = [(problem, tile) for problem, tile in CASES if tile.crew < 6]
"""All but those whose registers are too few for it."""


@cache
def cubin(
    problem: SkinnyProblem, tile: SkinnyTile, epilogue: int = STORE, prepared: bool = True
) -> bytes:
    epilogue = SILU_PAIR if problem.paired else epilogue
    return skinny_launch.cubin(tile, problem, (9, 0), epilogue, overlap=True, prepared=prepared)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_block_finds_its_registers(case):
    tile, usage = case[-1], usage_of(cubin(*case))
    a_warp = -(-usage["REG"] // 8) * 8 * 32
    assert a_warp * 4 * -(-tile.warps // 4) <= 65_536
    assert usage["LOCAL"] == 0
    assert usage["STACK"] <= 32  # a few numbers of a slice's end, not of a step


@pytest.mark.parametrize("case", IN_FLIGHT, ids=str)
def test_an_instruction_does_not_wait_for_the_one_before(case):
    counts = mnemonics_of(cubin(*case))
    assert counts["HGMMA.64"] == STEP_PRODUCTS
    assert counts["WARPGROUP.ARRIVE"] == STEP_PRODUCTS // 2  # once for two
    assert counts["WARPGROUP.DEPBAR.LE"] == STEP_PRODUCTS // 2 + 1  # and once at the end of a slice


@pytest.mark.parametrize("case", IN_FLIGHT, ids=str)
def test_no_register_is_written_that_a_matrix_instruction_may_still_read(case):
    # ptxas loses sight of what is under way where a loop begins again.
    body = loop_with_products(disassembly_of(cubin(*case)))
    under_way = {one for line in products(body)[-2:] for one in weights(line)}
    waits = next(at for at, line in enumerate(body) if "DEPBAR" in line)
    written = {one for line in body[:waits] if "HGMMA" not in line for one in results(line)}
    assert len(under_way) == 8
    assert not under_way & written


def test_what_overwrites_a_weight_is_seen():
    assert results("@!P0 LDS.128 R8, [R48+0x200] ;") == {8, 9, 10, 11}
    assert results("HMUL2 R50, R9, R8.H0_H0 ;") == {50}
    assert results("STS.128 [R8], R4 ;") == set()
    assert weights("HGMMA.64x32x16.F32 R24, R44, gdesc[UR12], R24, gsb0 ;") == {44, 45, 46, 47}


def test_gate_and_up_meet_in_registers_and_leave_two_outputs_at_a_time():
    for problem, tile in CASES:
        if problem.paired:
            counts = mnemonics_of(cubin(problem, tile))
            epilogues = 2 if tile.finishers else 1
            blocks = problem.row_blocks if tile.splits == 1 else 1
            assert counts["MOVM.16.MT88"] == epilogues * blocks
            assert counts["F2FP.BF16.F32.PACK_AB"] > 0


@pytest.mark.parametrize("case", [case for case in CASES if case[0].paired], ids=str)
def test_nothing_is_counted_in_memory_but_slices_of_tiles_that_are_left_over(case):
    counts = bases(mnemonics_of(cubin(*case)))
    assert counts["ATOMG"] == (1 if case[-1].finishers else 0)
    assert not counts.keys() & {"RED", "REDG", "ATOM"}


@pytest.mark.parametrize("prepared", [True, False])
@pytest.mark.parametrize("epilogue", [STORE, ADD_RESIDUAL])
def test_operands_come_by_the_copy_engine_and_rows_do_not(prepared, epilogue):
    plain = next(case for case in reversed(CASES) if not case[0].paired)
    counts = mnemonics_of(cubin(*plain, epilogue, prepared))
    assert any(name.startswith("UBLKCP") for name in counts) == prepared
    assert not any(name.startswith(("RED", "ATOM")) for name in counts)


def loop_with_products(text: str) -> list[str]:
    """The instructions from where the loop of steps begins to its branch back."""
    lines = [re.sub(r"/\*.*?\*/", "", line).strip() for line in text.splitlines()]
    last = max(at for at, line in enumerate(lines) if "HGMMA" in line)
    end = next(at for at in range(last, len(lines)) if "BRA" in lines[at])
    label = re.search(r"\.L_x_\d+", lines[end])
    assert label is not None
    begin = lines.index(f"{label.group()}:")
    assert begin < last
    return lines[begin : end + 1]


def products(lines: list[str]) -> list[str]:
    return [line for line in lines if "HGMMA" in line]


def weights(line: str) -> set[int]:
    """The registers of a matrix instruction's weights."""
    found = re.search(r"HGMMA\S* R\d+, R(\d+), gdesc", line)
    assert found is not None
    return set(range(int(found.group(1)), int(found.group(1)) + 4))


def results(line: str) -> set[int]:
    """The registers that an instruction writes."""
    found = re.match(r"(?:@!?U?P\w+ )?([A-Z][\w.]*) R(\d+),", line)
    if found is None:
        return set()
    width = 4 if ".128" in found.group(1) else 2 if re.search(r"\.64|WIDE", found.group(1)) else 1
    return set(range(int(found.group(2)), int(found.group(2)) + width))
