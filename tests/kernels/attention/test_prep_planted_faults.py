"""The checks are no ornament: every fault planted in the device code turns one of them red."""

from pathlib import Path

import pytest

from tests.kernels.planting import is_seen

MODEL = "bits of the model"
TRUTH = "within tolerance of fp64"
LAW = "law"
CAPACITY = "nothing is stored beyond the capacity"
FINITE = "what is not finite is stored as no number"

FAULTS = [
    # name, case, what the source says, what it is made to say, a proof that must turn red
    ("nothing changed", "tree", "mean + eps", "mean + eps", None),
    ("nothing changed for the law", CAPACITY, "mean + eps", "mean + eps", None),
    ("eps dropped", "tiny", "mean + eps", "mean", TRUTH),
    ("mean over half the row", "tree", "D * 1.0", "D * 0.5", TRUTH),
    ("weight not centred", "tree", "(1.0 + weight.to(tl.float32))", "weight.to(tl.float32)", TRUTH),
    ("norm not rounded", "tree", "(1.0 + weight.to(tl.float32))).to(tl.bfloat16)",
     "(1.0 + weight.to(tl.float32)))", MODEL),
    ("product not rounded", "tree", "y.to(tl.float32)).to(tl.bfloat16)", "y.to(tl.float32))",
     MODEL),
    ("turned the other way", "tree", "- _times(two, sin_near)", "+ _times(two, sin_near)", TRUTH),
    ("near cosine for far", "tree", "_times(two, cos_far)", "_times(two, sin_far)", TRUTH),
    ("depth for slot", "tree", "slots = start + rows", "slots = positions", TRUTH),
    ("row for depth", "tree", "if HAS_DEPTHS:", "if False:", TRUTH),
    ("gates for queries", "tree", "head * (2 * D)", "head * (2 * D) + D", TRUTH),
    ("heads side by side", "tree", "head * (2 * D)", "head * D", TRUTH),
    ("weights exchanged", "tree", "= is_q & (cols < D), is_k & (cols < D)",
     "= is_k & (cols < D), is_q & (cols < D)", TRUTH),
    ("value of the key", "tree", "v_at = v_ptr", "v_at = k_ptr", TRUTH),
    ("nothing changed for codes", "coded", "mean + eps", "mean + eps", None),
    ("scales of heads exchanged", "coded", "key_scales_ptr + group", "key_scales_ptr + 1 - group",
     TRUTH),
    ("scale of keys for values", "coded", "tl.load(value_scales_ptr", "tl.load(key_scales_ptr",
     TRUTH),
    ("scale multiplied in", "coded", "x.to(tl.float32) * inverse_scale",
     "x.to(tl.float32) / inverse_scale", TRUTH),
    ("cut too early", FINITE, "-448.0), 448.0", "-240.0), 240.0", LAW),
    ("infinite is largest", FINITE, 'tl.abs(scaled) < float("inf")', "scaled == scaled", LAW),
    ("stored past the capacity", CAPACITY, "slots < capacity", "slots >= 0", LAW),
    ("not stored at the end", CAPACITY, "slots < capacity", "slots < capacity - 1", LAW),
]  # fmt: skip
NAMES = [name for name, *_ in FAULTS]


@pytest.fixture(scope="module")
def red(plant) -> dict[str, list[str]]:
    """The proofs that turned red, by fault, from one process that interprets."""
    faults = [{"name": n, "subject": c, "old": o, "new": w} for n, c, o, w, _ in FAULTS]
    return plant(Path(__file__).with_name("prep_planted_script.py"), faults)


@pytest.mark.parametrize(("name", "proof"), [(n, p) for n, *_, p in FAULTS], ids=NAMES)
def test_a_planted_fault_turns_its_proof_red(red, name: str, proof: str | None):
    assert is_seen(red[name], proof)
