"""The checks are no ornament: every fault planted in the device code turns one of them red."""

from pathlib import Path

import pytest

from tests.kernels.planting import is_seen

TRUTH = "within its bound of fp64"
ROWS = "rows stand alone"
NAN = "a NaN stays in its row"
ORDER = "bits of the stored order"
BITS = "bits of the reference"
MOVED = "weights move by their bound"

CLEAN = ("stored", "spread", "block", "block by sum", "row", "split")
CLEAN_OPTION = ("fp8 4 bits", "fp8 block", "round", "round spread")
CLEAN_EXPANSIONS = ("expand stored", "expand spread", "expand block", "expand row")

FAULTS = [
    # name, case, what the source says, what it is made to say, the proof that must turn red
    *[
        (f"nothing changed in {case}", case, "total = tl.zeros(", "total = tl.zeros(", None)
        for case in (*CLEAN, *CLEAN_EXPANSIONS)
    ],
    # decoding
    ("signs of two pairs swapped", "spread", "0x4281", "0x2481", TRUTH),
    ("spread order only is wrong", "spread", "0x4281", "0x4282", ORDER),
    ("magnitudes not turned back", "spread", "3 * pair - 3", "3 * pair", TRUTH),
    ("spread sign lost", "spread", "* factor) & 0x80008000", "* factor) & 0x00008000", TRUTH),
    ("spread subnormal lost", "spread", "else 0x01C001C0", "else 0x01800180", TRUTH),
    ("stored sign lost", "stored", "0x01001000) & 0x80008000", "0x01001000) & 0x00008000", TRUTH),
    ("stored subnormal lost", "stored", "else 0x01C001C0", "else 0x01800180", TRUTH),
    ("halves of a pair swapped", "stored", "tl.join(_low_half(words), _low_half(words >> 16))",
     "tl.join(_low_half(words >> 16), _low_half(words))", TRUTH),
    ("group scales of other rows", "stored", "pairs, (0, 3, 1, 2, 4))", "pairs, (0, 3, 2, 1, 4))",
     TRUTH),
    ("group scale for a half of a pair", "spread", "* 0x00100010", "* 0x00100000", TRUTH),
    ("group scales twice as large", "spread", "0x77007700", "0x77807780", TRUTH),
    ("e4m3 subnormal lost", "row", "0x07F007F0", "0x07E007E0", TRUTH),
    ("e4m3 sign lost", "row", "(raised & 0x80008000)", "(raised & 0x00008000)", TRUTH),
    ("block scale for a half of a pair", "block", "bits | (bits >> 16)", "bits", TRUTH),
    # the product
    ("block scale of the first rows", "block by sum", "tl.load(scales_at + first_output // 128 *",
     "tl.load(scales_at + first_output // 999 *", TRUTH),
    ("folded scale of the first rows", "block", "(first_output + outputs) // 128 * num_steps",
     "(first_output + outputs) // 999 * num_steps", TRUTH),
    ("scales of the first step", "spread", "scales_at += scale_stride", "scales_at += 0", TRUTH),
    ("last step left out", "spread", "in range(first_step, end_step)",
     "in range(first_step, end_step - 1)", TRUTH),
    ("tail of the inputs not masked", "spread", "inputs < num_inputs - step * 128",
     "inputs < num_inputs + 8 - step * 128", NAN),
    ("multiplier halved", "spread", "(tl.load(row_scales_at) * 256.0)",
     "(tl.load(row_scales_at) * 128.0)", TRUTH),
    ("one multiplier for all rows", "row", "total * tl.load(row_scales_at)[:, None]",
     "total * tl.max(tl.load(row_scales_at))", TRUTH),
    ("sum rounded before its multiplier", "spread", "= _scale_rows(total, row",
     "= _scale_rows(total.to(tl.bfloat16).to(tl.float32), row", TRUTH),
    ("rows see each other", "spread", "total = tl.dot(operand, x, total)",
     "total = tl.dot(operand, x, total) + 0 * tl.sum(x.to(tl.float32))", NAN),
    ("sums depend on the number of rows", "spread", "total = tl.dot(operand, x, total)",
     "total = tl.dot(operand, x, total) * (1.0 + num_rows * 1e-2)", ROWS),
    ("last row not written", "spread", "(at_row < num_rows - first_row)",
     "(at_row < num_rows - first_row - 1)", TRUTH),
    ("one row too many", "spread", "(at_row < num_rows - first_row)",
     "(at_row < num_rows - first_row + 1)", TRUTH),
    ("one output too many", "spread", "(at_output < num_outputs - first_output)",
     "(at_output < num_outputs - first_output + 1)", TRUTH),
    # slices
    ("a slice left out", "split", "static_range(1, SLICES)", "static_range(2, SLICES)", TRUTH),
    ("slices overlap", "split", "tl.minimum(first + slice_steps, num_steps)", "num_steps", TRUTH),
    ("multiplier of sliced outputs lost", "split", "mask=mask, other=0.0) * 256.0",
     "mask=mask, other=0.0) * 0.0 + 256.0", TRUTH),
    # expansion
    ("expanded twice as large", "expand stored", "8.507059173023462e37", "1.7014118e38", BITS),
    ("expanded halves swapped", "expand spread", "_value(pairs << 16)", "_value(pairs)", BITS),
    ("expanded with other groups", "expand spread", "groups % 8 // 2 * 4", "groups % 8 // 2 * 2",
     BITS),
    ("expanded past its rows", "expand stored", "values, mask=inside & (inputs < num",
     "values, mask=(rows < num_outputs + 1)[:, None] & (inputs < num", BITS),
    ("expanded past its inputs", "expand block", "mask = inside & (inputs < num_inputs)",
     "mask = inside & (inputs < num_inputs + 1)", BITS),
    ("block scale of the first block", "expand block", "first_row // 128 * num_steps",
     "first_row // 999 * num_steps", BITS),
    # the FP8 option
    *[
        (f"nothing changed in {case}", case, "(exponents - 5)", "(exponents - 5)", None)
        for case in CLEAN_OPTION
    ],
    ("rows grow by twice too much", "round", "(259 - exponents)", "(260 - exponents)", BITS),
    ("multiplier of another factor", "round", "(exponents - 5)", "(exponents - 6)", BITS),
    ("halves of a tile's rows swapped", "round", "tl.trans(of_row), (16,)", "of_row, (16,)", BITS),
    ("largest of the first steps only", "round spread", "largest = tl.maximum(largest, runs.to(",
     "largest = tl.maximum(largest, (step < 1) * runs.to(", BITS),
    ("rounded with other groups", "round", "groups % 8 // 2 * 4", "groups % 8 // 2 * 2", BITS),
    ("rounded halves swapped", "round", "low | (high << 8)", "high | (low << 8)", BITS),
    ("rounded past its rows", "round", "mask=inside & (at_pair <",
     "mask=(rows < num_outputs + 1)[:, None] & (at_pair <", BITS),
    ("most of e4m3 unused", "round", "(259 - exponents)", "(249 - exponents)", MOVED),
    ("row multiplier left out", "fp8 4 bits", "total *= tl.load(scales_ptr + outputs)[None, :]",
     "total *= 1.0", TRUTH),
    ("row multiplier of a row", "fp8 4 bits", "scales_ptr + outputs)[None, :]",
     "scales_ptr + outputs * 0)[None, :]", TRUTH),
    ("block multiplier left out", "fp8 block", "scale *= tl.load(scales_at + step)", "scale *= 1.0",
     TRUTH),
    ("block of the first outputs", "fp8 block", "first_output // 128 * num_steps",
     "first_output // 999 * num_steps", TRUTH),
    ("scale of another row", "fp8 4 bits", "tl.minimum(first_row + at_row, num_rows - 1)",
     "tl.minimum(first_row + at_row * 0, num_rows - 1)", TRUTH),
    ("scale of the first step", "fp8 block", "x_scales_at += num_rows", "x_scales_at += 0", TRUTH),
    ("one output of the option too many", "fp8 4 bits",
     "(at_output < num_outputs - first_output)\n    out_offsets",
     "(at_output < num_outputs - first_output + 1)\n    out_offsets", TRUTH),
]  # fmt: skip
NAMES = [name for name, *_ in FAULTS]


@pytest.fixture(scope="module")
def red(plant) -> dict[str, list[str]]:
    """The proofs that turned red, by fault, from one process that interprets."""
    faults = [{"name": n, "case": c, "old": o, "new": w} for n, c, o, w, _ in FAULTS]
    return plant(Path(__file__).with_name("middle_planted_script.py"), faults)


@pytest.mark.parametrize(("name", "proof"), [(n, p) for n, *_, p in FAULTS], ids=NAMES)
def test_a_planted_fault_turns_its_proof_red(red, name: str, proof: str | None):
    assert is_seen(red[name], proof)
