"""Operands are the rows in the order of a product's instructions, and kernels write them so."""

from pathlib import Path

import pytest
import torch

from kernels.common.operands import APART, Operands, new_operands, operands_of
from kernels.common.operands_law import wrong_operands
from kernels.linear.formats import CHUNK_INPUTS
from kernels.linear.model import instructions

FORMAT_OF = {CHUNK_INPUTS[name]: name for name in ("nvfp4", "fp8_block")}


def rows_of(num_rows: int, width: int) -> torch.Tensor:
    return torch.randn((num_rows, width), generator=torch.Generator().manual_seed(1)).bfloat16()


@pytest.mark.parametrize("order", FORMAT_OF)
def test_a_lanes_vectors_are_the_inputs_that_its_instructions_multiply(order):
    rows = rows_of(16, 384)
    image = operands_of(rows, order).image
    taken = list(instructions(FORMAT_OF[order]))  # 16 inputs of each: four of each of four lanes
    for vector in range(4):
        for t in range(4):
            four = slice(4 * t, 4 * t + 4)
            inputs = torch.tensor(taken[2 * vector][four] + taken[2 * vector + 1][four])
            for row, step in ((0, 0), (5, 1), (13, 2)):
                want = rows[row, 128 * step + inputs].half()
                assert torch.equal(image[row // 8, step, vector, row % 8 * 4 + t], want)


def test_matrices_are_a_lanes_pairs_of_all_rows_and_lanes():
    rows = rows_of(24, 384)
    vectors = operands_of(rows, 32).image.view(3, 3, 4, 8, 4, 4, 2)  # row, lane, pair
    matrices = operands_of(rows, 32 + APART).image.view(3, 3, 4, 4, 8, 4, 2)  # pair, row, lane
    for pair in range(4):
        assert torch.equal(matrices[:, :, :, pair], vectors[..., pair, :])


def test_magnitudes_are_those_of_8_inputs_of_a_row():
    rows = rows_of(11, 256)
    rows[10, 200] = -3e38
    largest = operands_of(rows, 32).largest.view(torch.bfloat16)
    want = rows.abs().view(11, 16, 2, 8).amax(3).transpose(1, 2)
    assert torch.equal(largest[:11], want)
    assert torch.equal(largest[11:], torch.zeros(5, 2, 16).bfloat16())


def test_the_largest_magnitude_of_a_row_that_holds_nan_is_no_number():
    rows = rows_of(1, 128)
    rows[0, 7] = torch.nan
    assert operands_of(rows, 16).largest.view(torch.bfloat16)[0, 0, 0].isnan()


def test_numbers_that_have_no_operands_are_refused():
    for num_rows, width, order in ((33, 128, 32), (0, 128, 32), (1, 100, 32), (1, 128, 8)):
        with pytest.raises(ValueError, match="1 to 32 rows, a multiple of 128"):
            new_operands(num_rows, width, order, "cpu")


def test_rows_without_places_are_refused():
    operands = new_operands(8, 256, 32, "cpu")
    for rows in (rows_of(9, 256), rows_of(8, 128)):
        with pytest.raises(ValueError, match="operands for 8 rows of 256 inputs"):
            operands.expect("norm", rows)


def test_the_law_sees_what_is_written_wrong_or_beside():
    rows = rows_of(3, 128)

    def written(operands: Operands) -> torch.Tensor:
        operands.fill(rows)
        return rows

    def beside(operands: Operands) -> torch.Tensor:
        operands.fill(rows_of(4, 128))
        return rows

    def late(operands: Operands) -> torch.Tensor:
        operands.fill(rows.roll(1, 1))
        return rows

    assert wrong_operands(written, 3, 128, "cpu") is None
    assert "order 32" in (wrong_operands(beside, 3, 128, "cpu") or "")
    assert "differ in bits" in (wrong_operands(late, 3, 128, "cpu") or "")


FAULTS = [
    # name, what the source says, what it is made to say, whether the laws turn red
    ("nothing changed", "row % 8 * 4", "row % 8 * 4", False),
    ("rows of a block turned round", "row % 8 * 4", "(7 - row % 8) * 4", True),
    ("one order for all", "PIECES: constexpr = ORDER // 8", "PIECES: constexpr = 4", True),
    ("blocks of rows mixed up", "row // 8 * STEPS", "row // 16 * STEPS", True),
    ("signed magnitudes", ".to(tl.int32) & 0x7FFF", ".to(tl.int32)", True),
    ("a magnitude of half of the inputs", "(ROWS, LANES // 8, 8)), axis=2",
     "(ROWS, LANES // 8, 8)) * (tl.arange(0, 8) < 4)[None, None, :], axis=2", True),
    ("rows beyond the last written", "(row < num_rows)[:, :, None] &", "(row >= 0)[:, :, None] &",
     True),
    ("the next inputs' magnitudes", "eight % 2 * (WIDTH // 16)",
     "(1 - eight % 2) * (WIDTH // 16)", True),
]  # fmt: skip


@pytest.fixture(scope="module")
def red(plant) -> dict[str, list[str]]:
    """The laws that turned red, by fault, from one process that interprets."""
    faults = [{"name": n, "subject": "", "old": o, "new": w} for n, o, w, _ in FAULTS]
    return plant(Path(__file__).with_name("operands_script.py"), faults)


@pytest.mark.parametrize(("name", "turns"), [(n, t) for n, _, _, t in FAULTS])
def test_a_planted_fault_turns_the_laws_of_who_writes_operands_red(red, name, turns):
    assert bool(red[name]) is turns
