"""The checks are no ornament: every fault planted in the device code turns one of them red."""

from pathlib import Path

import pytest

WALK = "a tree is walked as every path of it says"
OWN = "a row's own draft is penalised, and row 0 by its marks"
MARKS = "committed ids are marked, and no others"

FAULTS = [
    # name, kernel file, subject, what the source says, what it is made to say; all turn red but
    # the first
    ("nothing changed", "top", "top_20_penalised FLAT 4 2100", "TOP_K", "TOP_K"),
    ("noise of the next position", "top", "top_32 FLAT 4 2100", "depths_ptr + row) + 1",
     "depths_ptr)"),
    ("depth forgotten", "top", "top_32 FLAT 4 2100", "tl.load(depths_ptr + row) + 1", "1"),
    ("nine rounds", "noise", "top_32 FLAT 4 2100", "static_range(10)", "static_range(9)"),
    ("keys swapped", "noise", "top_32 FLAT 4 2100", "^ c1 ^ key0", "^ c1 ^ key1"),
    ("high position word in the low", "noise", "top_32 FLAT 4 2100", "_high_word(position)",
     "_low_word(position)"),
    ("fewer bits of noise", "noise", "whole FLAT 4 2100", "((word0 >> 6) << 26) + (word1 >> 6)",
     "(word0 >> 26) << 46"),
    ("noise left out", "top", "top_32 FLAT 4 2100", "tl.log(shares) + noise", "tl.log(shares)"),
    ("temperature squared", "top", "top_32 LOGITS 8 2100", "tl.load(floats_ptr + TEMPERATURE))",
     "(tl.load(floats_ptr + TEMPERATURE) * 3))"),
    ("top_k one short", "top", "top_1 FLAT 4 2100", "ints_ptr + TOP_K).to(tl.int32)",
     "ints_ptr + TOP_K).to(tl.int32) + 1"),
    ("presence of seen ids", "logits", "top_20_penalised FLAT 8 2100",
     "tl.where(generated, x - presence",
     "tl.where(seen, x - presence"),
    ("path forgotten", "logits", "greedy_penalised TIES 16 40", "seen = on_path | (",
     "seen = ("),
    ("path one short", "logits", OWN, "range(1, depth + 1)",
     "range(1, depth)"),
    ("own row left out", "logits", OWN, "(lanes <= depth)",
     "(lanes < depth)"),
    ("negative logits divided", "logits", "greedy_penalised COLD 4 2100",
     "tl.where(x > 0.0, divided, x * repetition)", "divided"),
    ("half the mass", "search", "whole_top_p_penalised LOGITS 8 5", "* _entry(reached, 0)",
     "* 0.5 * _entry(reached, 0)"),
    ("cut too early", "search", "whole_top_100_top_p FLAT 2 2100",
     "high = tl.where(is_last, high, ",
     "high = tl.where(is_last, low + 1, "),
    ("floor forgotten", "search", "whole_top_100_top_p FLAT 6 2100",
     "low = tl.maximum(low, tl.load(",
     "low = tl.minimum(low, tl.load("),
    ("score without its share", "draw", "whole LOGITS 8 2100", "exponent + noise", "noise"),
    ("walk stays at row 0", "accept", WALK, "row = following", "row = following * 0 + 32"),
    ("highest twin", "accept", WALK, "tl.min(tl.where(drafts & (row_ids == token), rows, 32), 0)",
     "tl.max(tl.where(drafts & (row_ids == token), rows, -1), 0) & 63"),
    ("stop ids unread", "accept", WALK, "is_stop & (stop_ids == token)", "is_stop & (stops < 0)"),
    ("budget one over", "accept", WALK, "elif count >= budget", "elif count > budget"),
    ("parity kept", "accept", WALK, "1 - tl.load(parity_ptr)", "tl.load(parity_ptr)"),
    ("root kept", "accept", WALK, "if count > 0:", "if count > 32:"),
    ("a broken row commits", "accept", WALK, "if token < 0:", "if token < -5:"),
    ("one mark too many", "accept", MARKS, "lanes < tl.load(result_ptr)",
     "lanes <= tl.load(result_ptr)"),
]  # fmt: skip
NAMES = [name for name, *_ in FAULTS]


@pytest.fixture(scope="module")
def red(plant) -> dict[str, list[str]]:
    """What turned red, by fault, from one process that interprets."""
    faults = [
        {"name": n, "module": f"kernels.sample.{m}_kernel", "subject": s, "old": o, "new": w}
        for n, m, s, o, w in FAULTS
    ]
    return plant(Path(__file__).with_name("planted_script.py"), faults)


@pytest.mark.parametrize("name", NAMES)
def test_a_planted_fault_turns_a_check_red(red, name: str):
    assert bool(red[name]) == (name != "nothing changed")
