"""The checks are no ornament: every fault planted in the device code turns one of them red."""

from pathlib import Path

import pytest

from kernels.common import proofs
from kernels.norm import rows_launch
from tests.kernels import device_faults
from tests.kernels.norm import norm_device_faults
from tests.kernels.planting import is_seen

MODEL = "bits of the model"
TRUTH = "within tolerance of fp64"

FAULTS = [
    # name, case, what the source says, what it is made to say, a proof that must turn red
    ("nothing changed", "rms_norm", "mean + eps", "mean + eps", None),
    ("eps dropped", "rms_norm tiny", "mean + eps", "mean", TRUTH),
    ("weight not centred", "rms_norm", "normed * (1.0 + weight)", "normed * weight", TRUTH),
    ("weight added in bf16", "rms_norm", "(1.0 + weight)",
     "(1.0 + weight).to(tl.bfloat16).to(tl.float32)", MODEL),
    ("extra rounding before the weight", "rms_norm", "(normed * (1.0",
     "(normed.to(tl.bfloat16).to(tl.float32) * (1.0", MODEL),
    ("mean over the lanes", "rms_norm", "WIDTH * 1.0)", "WIDTH * 1.28)", TRUTH),
    ("tail not written", "rms_norm", "cols, out, mask=mask)", "cols, out, mask=mask & (cols < 99))",
     TRUTH),
    ("last row not written", "rms_norm", "(rows < num_rows) &", "(rows < num_rows - 1) &", TRUTH),
    ("one lane too many", "rms_norm", "mask = (rows < num_rows) & (cols < WIDTH)",
     "mask = (rows < num_rows) & (cols < WIDTH + 1)", TRUTH),
    ("rows see each other", "rms_norm", "_inverse_rms(x, eps",
     "_inverse_rms(x + 0 * tl.sum(x), eps", "NaN stays in its row"),
    ("unrounded sum normalised", "add_rms_norm", "total = total.to(tl.float32)",
     "total = residual + x", MODEL),
    ("product not rounded", "gated_rms_norm", "if ROUND_PRODUCT:", "if not ROUND_PRODUCT:", MODEL),
    ("fp32 product rounded", "gated_rms_norm fp32", "if ROUND_PRODUCT:", "if True:", MODEL),
    ("middle rounding dropped", "gated_rms_norm",
     "normed.to(tl.bfloat16).to(tl.float32) * weight", "normed * weight", MODEL),
    ("gate taken for x", "gated_rms_norm", "silu(gate)", "silu(x)", TRUTH),
    ("gate rounded to bf16", "gated_rms_norm", "silu(gate))",
     "silu(gate).to(tl.bfloat16).to(tl.float32))", MODEL),
]  # fmt: skip
NAMES = [name for name, *_ in FAULTS]


@pytest.fixture(scope="module")
def red(plant) -> dict[str, list[str]]:
    """The proofs that turned red, by fault, from one process that interprets."""
    faults = [{"name": n, "subject": c, "old": o, "new": w} for n, c, o, w, _ in FAULTS]
    return plant(Path(__file__).with_name("planted_script.py"), faults)


@pytest.mark.parametrize(("name", "proof"), [(n, p) for n, *_, p in FAULTS], ids=NAMES)
def test_a_planted_fault_turns_its_proof_red(red, name: str, proof: str | None):
    assert proof is None or proof in proofs.DEVICE_CODE
    assert is_seen(red[name], proof)


@pytest.mark.parametrize("fault", norm_device_faults.FAULTS, ids=lambda fault: fault[0])
def test_a_fault_of_the_device_code_can_be_planted(fault):
    """On a GPU `norm_device_faults.py` shows that each is seen."""
    assert device_faults.can_be_planted(rows_launch.SOURCE, fault, norm_device_faults.choices(5120))
