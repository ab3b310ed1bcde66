"""The checks are no ornament: every fault planted in the device code turns one of them red."""

from pathlib import Path

import pytest

from tests.kernels.planting import is_seen

KEYS, KERNEL = "kernels.common.ordered_keys", "kernels.head.kernel"
TRUTH, MODEL = "within tolerance of fp64", "bits of the model"
HIDDEN = "hidden, banned and mapped ids are those of -inf logits"
BROKEN = "a row without a sound maximum has id -1"

FAULTS = [
    # name, module, subject, what the source says, what it is made to say, what must turn red
    ("nothing changed", KERNEL, "argmax_logprob_rows LOGITS", "mask=inside", "mask=inside", None),
    ("zeros are told apart", KEYS, "argmax_rows ZEROS", "tl.where(x == 0.0, 0, ", "(", TRUTH),
    ("negative logits unordered", KEYS, "topk_rows NEGATIVE",
     "signed = bits ^ ((bits >> 31) & 0x7F",
     "signed = bits ^ ((bits >> 31) & 0x00", TRUTH),
    ("the highest id wins", KEYS, "topk_rows TIES", "key = (place_of(x) << 20) | (1048575 - ids)",
     "key = (place_of(x) << 20) | (1048575 - (2099 - ids))", TRUTH),
    ("the highest id of a block wins", KEYS, "argmax_rows TIES",
     "tl.min(tl.where(ties, ids, 1048575), axis)", "tl.max(tl.where(ties, ids, -1), axis)", TRUTH),
    ("hidden ids win", KEYS, BROKEN, "best > -2139095041", "best > -2139095042", "law"),
    ("ids beyond num_ids win", KERNEL, HIDDEN, "allowed = inside & (ids < num_ids)",
     "allowed = inside", "law"),
    ("bans are one short", KERNEL, HIDDEN, "range(num_banned)", "range(num_banned - 1)", "law"),
    ("columns for ids", KERNEL, HIDDEN, "ids = tl.load(map_ptr + cols, mask=inside, other=0)",
     "ids = cols", "law"),
    ("a NaN is below all", KEYS, BROKEN, "tl.where(x != x, 0x7FFFFFFF, signed)",
     "tl.where(x != x, -2147483648, signed)", "law"),
    ("infinity is finite", KEYS, BROKEN, "(key >> 20) < 4286578688", "(key >> 20) <= 4286578688",
     "law"),
    ("last chunk dropped", KERNEL, "argmax_rows LONELY", "inside = lanes < num_chunks",
     "inside = lanes < num_chunks - 1", "NaN stays in its row"),
    ("sum of another base", KERNEL, "argmax_logprob_rows LOGITS", "sums * exp(logit_of(keys)",
     "sums * exp(1.0 + logit_of(keys)", TRUTH),
    ("sum in another order", KERNEL, "argmax_logprob_rows LOGITS", "1, 0, PAIRS)\n        tl.store",
     "1, PAIRS, 0)\n        tl.store", MODEL),
    ("one group too few", KERNEL, "topk_rows APART", "largest_keys(maxima, k, TOP)",
     "largest_keys(maxima, k - 1, TOP)", TRUTH),
    ("groups misplaced", KERNEL, "topk_rows LOGITS", "(id_of(of_groups) // GROUP)[:, None]",
     "(id_of(of_groups) // GROUP + 1)[:, None]", TRUTH),
    ("rows share a row", KERNEL, "argmax_rows LOGITS", "row * stride_row + cols, mask=inside",
     "cols, mask=inside", TRUTH),
]  # fmt: skip
NAMES = [name for name, *_ in FAULTS]


@pytest.fixture(scope="module")
def red(plant) -> dict[str, list[str]]:
    """What turned red, by fault, from one process that interprets."""
    fields = ("name", "module", "subject", "old", "new")
    faults = [dict(zip(fields, fault, strict=False)) for fault in FAULTS]
    return plant(Path(__file__).with_name("planted_script.py"), faults)


@pytest.mark.parametrize(("name", "proof"), [(n, p) for n, *_, p in FAULTS], ids=NAMES)
def test_a_planted_fault_turns_its_proof_red(red, name: str, proof: str | None):
    assert is_seen(red[name], proof)
