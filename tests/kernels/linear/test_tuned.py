"""What `tune` sweeps of the products: keys, proofs, and what is compiled before any is timed."""

import pytest
import torch

from engine.check.families import sizes_of
from engine.model.config import SHAPE_27B, SHAPE_DEMO
from engine.tune.tiles import read_table
from kernels.common.chips import has_large_blocks
from kernels.linear import skinny_launch
from kernels.linear.tile import SkinnyProblem, SkinnyTile
from kernels.linear.tile_choice import PAIR_OP, nominal_gpu
from kernels.linear.tile_room import fits
from kernels.linear.timed import all_rows, timed
from kernels.linear.tuned import TUNABLES, launched

BY_OP = {one.op: one for one in TUNABLES}
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def problems(rows):
    return timed(sizes_of("demo", SHAPE_DEMO, ("nvfp4", "fp8_block", "bf16")), rows)


def named(name, rows, format_name):
    return next(
        one
        for one in problems(rows)
        if one.name.startswith(name) and one.format_name == format_name
    )


def test_pairs_have_entries_of_their_own_up_to_the_rows_that_they_serve(monkeypatch):
    assert [BY_OP[PAIR_OP].key(named("gate and up in one", rows, "nvfp4"))["rows"]
            for rows in BY_OP[PAIR_OP].rows] == [8, 16, 24, 32]  # fmt: skip
    monkeypatch.setattr("kernels.linear.timed.capabilities", lambda: ((12, 1),))
    assert not [one for one in problems(24) if one.op == PAIR_OP]
    assert {one.format_name for one in problems(1) if one.op == PAIR_OP} == {"nvfp4"}


def test_a_tile_is_compiled_as_it_is_compared_and_as_it_is_timed():
    tile = SkinnyTile(1, 2, 2, 3, "shared")
    compared, timed_one = launched(named("gate and up in one", 1, "nvfp4"), tile)
    assert (compared.overlap, compared.prepared) == (False, False)
    assert (timed_one.overlap, timed_one.prepared) == (True, True)
    assert compared.problem.paired
    assert timed_one.epilogue == skinny_launch.SILU_PAIR
    assert (compared.problem.rows, timed_one.problem.rows) == (8, 1)


def test_a_head_is_timed_with_fp32_results_from_rows_alone():
    _, head = launched(named("head", 16, "e4m3_row"), SkinnyTile(1, 2, 1, 3, "shared"))
    assert (head.fp32_out, head.prepared, head.overlap) == (True, False, True)


def test_bf16_rows_and_activations_in_global_memory_take_no_operands():
    plain = launched(named("MTP in", 1, "bf16"), SkinnyTile(1, 2, 1, 3, "shared"))
    apart = launched(named("down", 1, "fp8_block"), SkinnyTile(1, 2, 1, 3, "global"))
    assert not any(one.prepared for one in (*plain, *apart))


def test_a_tile_of_16_rows_is_compiled_for_both_launches_of_32():
    tile = SkinnyTile(1, 1, 1, 2, "global", most_rows=16)
    found = list(launched(named("down", 24, "nvfp4"), tile))
    assert [one.problem.rows for one in found] == [16, 8, 16, 8]


CHIPS = pytest.mark.parametrize("capability", [(9, 0), (12, 1)])


def launches_of_a_proof(problem, case, tile):
    """Every launch of a call of 1 to all rows of a case, with a tile, but for the default's."""
    for rows in range(1, case.sizes["T"] + 1):
        tiles = all_rows(tile, rows)
        for count, one in tiles.launches(rows) if tiles else ():
            paired = problem.op == PAIR_OP
            N, K = case.sizes["N"], case.sizes["K"]
            yield SkinnyProblem(N, K, problem.format_name, count, paired), one


@CHIPS
@pytest.mark.parametrize("rows", [1, 16, 24, 32])
def test_whatever_serves_can_be_launched_in_all_calls_that_prove_it(rows, capability, monkeypatch):
    monkeypatch.setattr("kernels.linear.timed.capabilities", lambda: (capability,))
    table = read_table("linear", capability)
    num_sms, limit = nominal_gpu(has_large_blocks(capability))
    for problem in timed(sizes_of("27b", SHAPE_27B), rows):
        tunable = BY_OP[problem.op]
        tile = tunable.find(table, tunable.key(problem))
        for case in (problem.case, tunable.case(problem)):
            for about, one in launches_of_a_proof(problem, case, tile):
                assert fits(one, about, num_sms, limit), f"{problem.name}: {one} {about}"


@CHIPS
@pytest.mark.parametrize("rows", [1, 16, 24, 32])
def test_whatever_is_worth_timing_can_be_compared(rows, capability, monkeypatch):
    monkeypatch.setattr("kernels.linear.timed.capabilities", lambda: (capability,))
    monkeypatch.setattr("kernels.linear.tuned.capabilities", lambda: (capability,))
    num_sms, limit = nominal_gpu(has_large_blocks(capability))
    for problem in timed(sizes_of("27b", SHAPE_27B), rows):
        tunable = BY_OP[problem.op]
        case = tunable.case(problem)
        for tile in tunable.candidates(tunable.key(problem)):
            *_, (about, one) = launches_of_a_proof(problem, case, tile)
            assert fits(one, about, num_sms, limit), f"{problem.name}: {one} {about}"


@needs_gpu
@pytest.mark.parametrize("rows", [1, 16, 24, 32])
def test_nothing_is_left_to_compile_on_a_gpu(rows):
    for problem in problems(rows):
        tunable = BY_OP[problem.op]
        if rows not in tunable.rows:
            continue
        tiles = tunable.candidates(tunable.key(problem))[:3]
        tunable.compile(problem, tiles)
        before = set(skinny_launch._loaded)
        case = tunable.case(problem)
        inputs = case.draw(1, "cuda")
        for tile in tiles:
            tunable.run(inputs, case.poisoned_outputs("cuda").tensors, tile)
            problem.make_calls(1, "cuda")[0](tile)
        assert set(skinny_launch._loaded) == before, problem.name


def test_a_call_without_a_tile_takes_the_default():
    assert all_rows(None, 16) is None
    assert all_rows(SkinnyTile(1, 1, 1, 2, "global"), 32).serving(32) is not None
