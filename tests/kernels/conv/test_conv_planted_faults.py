"""The checks are no ornament: every fault planted in the device code turns one of them red."""

from pathlib import Path

import pytest

from kernels.conv import gates_kernel, kernel, prefill_kernel, rows_launch
from tests.kernels import device_faults
from tests.kernels.conv import conv_device_faults
from tests.kernels.planting import is_seen

MODEL = "bits of the model"
TRUTH = "within tolerance of fp64"
LAW = "law"

FAULTS = [
    # name, case, what the source says, what it is made to say, a proof that must turn red
    ("nothing changed", "gates", "num_pending + place", "num_pending + place", None),
    ("nothing changed for the law", "rows law", "num_pending + place", "num_pending + place", None),
    ("half of this round read", "gates", "tails_ptr + (1 - parity) * (3", "tails_ptr + parity * (3",
     TRUTH),
    ("record of this round read", "gates", "raw_ptr + (1 - parity) * (32",
     "raw_ptr + parity * (32", TRUTH),
    ("first tap for the last", "gates", "_tap(packed, 0)", "_tap(packed, 3)", TRUTH),
    ("sum not rounded before SiLU", "gates", "silu(total.to(tl.bfloat16).to(tl.float32))",
     "silu(total)", MODEL),
    ("row before for parent", "gates", "tl.where(place >= 0, parent, place - 1)", "place - 1",
     TRUTH),
    ("row before for parent, law", "rows law", "tl.where(place >= 0, parent, place - 1)",
     "place - 1", LAW),
    ("pending rows from the first", "gates", "pending = num_pending + place",
     "pending = tl.where(place + num_pending < 0, num_pending + place, -1 - place)", TRUTH),
    ("pending rows not looked up", "gates", "raw_ptr + row * WIDTH, tail_ptr",
     "raw_ptr + pending * WIDTH, tail_ptr", TRUTH),
    ("tail from its old end", "gates", "(3 + pending) * WIDTH", "(-1 - pending) * WIDTH", TRUTH),
    ("length without eps", "gates tiny", "+ 1e-6", "+ 0.0", TRUTH),
    ("q not scaled", "gates", "unit * Q_SCALE", "unit", TRUTH),
    ("k scaled", "gates", "tl.store(k_ptr + k_at, unit,", "tl.store(k_ptr + k_at, unit * 0.25,",
     TRUTH),
    ("tail of row one", "gates", "known & (row == 0)", "known & (row == 1)", TRUTH),
    ("record of the result", "gates", "WIDTH + channels, newest)", "WIDTH + channels, y)", TRUTH),
    ("softplus without its bend", "gates", " + (2.0 * s) * p", "", TRUTH),
    ("log decay for decay", "gates", "exp(log_decay(a, rate, bias))", "log_decay(a, rate, bias)",
     TRUTH),
    ("beta not rounded", "gates", "exp(-b.to(tl.float32))).to(tl.bfloat16)",
     "exp(-b.to(tl.float32)))", MODEL),
    ("beta of a", "gates", "write_share(b).to", "write_share(a).to", TRUTH),
    ("gates of row 0", "rows law", "a = tl.load(ab_ptr + row * stride_ab_row + lanes",
     "a = tl.load(ab_ptr + lanes", LAW),
    ("the first inputs alone", "product", "tl.static_range(0, INPUTS,", "tl.static_range(0, 512,",
     TRUTH),
    ("b from a's weight", "product", "weight_ptr + (VALUE_HEADS + head) * stride",
     "weight_ptr + head * stride", TRUTH),
    ("gates of row 0 alone", "product", "hidden_ptr += row * stride_hidden_row",
     "hidden_ptr += 0 * row", TRUTH),
    ("a not rounded", "product", "a = sum_rows(a, 1, 0, _PAIRS).to(tl.bfloat16)",
     "a = sum_rows(a, 1, 0, _PAIRS)", MODEL),
    ("tail from its new end", "prefill", "(3 + at) * WIDTH", "(-1 - at) * WIDTH", TRUTH),
    ("a row twice", "prefill", "rows - 2, stride", "rows - 1, stride", TRUTH),
    ("last row not written", "prefill", "(rows < num_rows) & (within < D)",
     "(rows < num_rows - 1) & (within < D)", TRUTH),
    ("tail one row early", "prefill", "length - 3 + last", "length - 4 + last", TRUTH),
    ("k from q's heads", "prefill", "(key_head >= 0) & (value_head < 0)",
     "(key_head >= -1) & (value_head < -1)", TRUTH),
    ("one half folded", "fold", "tl.static_range(2)", "tl.static_range(1)", TRUTH),
    ("records of the other half folded", "fold", "(layer * 2 + 1 - parity)", "(layer * 2 + parity)",
     TRUTH),
    ("one layer folded", "fold", "tl.program_id(1).to(tl.int64)\n    mask",
     "tl.program_id(1).to(tl.int64) * 0\n    mask", TRUTH),
]  # fmt: skip
NAMES = [name for name, *_ in FAULTS]


def module_of(text: str) -> str:
    """The module whose source says it."""
    modules = (prefill_kernel, gates_kernel, kernel)
    return next(one.__name__ for one in modules if text in Path(one.__file__).read_text())


@pytest.fixture(scope="module")
def red(plant) -> dict[str, list[str]]:
    """The proofs that turned red, by fault, from one process that interprets."""
    faults = [
        {"name": n, "subject": c, "old": o, "new": w, "module": module_of(o)}
        for n, c, o, w, _ in FAULTS
    ]
    return plant(Path(__file__).with_name("conv_planted_script.py"), faults)


@pytest.mark.parametrize(("name", "proof"), [(n, p) for n, *_, p in FAULTS], ids=NAMES)
def test_a_planted_fault_turns_its_proof_red(red, name: str, proof: str | None):
    assert is_seen(red[name], proof)


@pytest.mark.parametrize("fault", conv_device_faults.FAULTS, ids=lambda fault: fault[0])
def test_a_fault_of_the_device_code_can_be_planted(fault):
    """On a GPU `conv_device_faults.py` shows that each is seen."""
    assert device_faults.can_be_planted(rows_launch.SOURCE, fault, {"INPUTS": 768})
