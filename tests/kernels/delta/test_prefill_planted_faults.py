"""The checks of the chunked form are no ornament: planted faults turn them red."""

from pathlib import Path

import pytest

FAULTS = [
    # name, what the source says, what it is made to say
    ("nothing changed", "state * fade", "state * fade"),
    ("state kept in bf16", "tl.dot(both, state_head, tl.dot(both, state_tail))",
     "tl.dot(both, state_head)"),
    ("writes lose their tail", "tl.dot(across, written_tail, state * fade)", "state * fade"),
    ("products of one term", "y_head, tl.dot(x_head, y_tail, tl.dot(x_tail, y_head)))", "y_head)"),
    ("state not faded", "state * fade", "state"),
    ("diagonal blocks not solved", "tl.static_range(BLOCK - 1)", "tl.static_range(BLOCK // 2)"),
    ("halves not merged", "return _merge(inverse, lower, CHUNK, 2 * BLOCK)", "return inverse"),
    ("a token sees itself written twice", "tl.where(i[:, None] > i[None, :], alike",
     "tl.where(i[:, None] >= i[None, :], alike"),
    ("a token does not see itself", "seen = i[:, None] >= i[None, :]",
     "seen = i[:, None] > i[None, :]"),
    ("keys not of length one", "k_scale = tl.rsqrt(k_square + EPS)",
     "k_scale = tl.rsqrt(k_square * 1.01 + EPS)"),
    ("beta only for columns", "(beta * k_scale)[:, None]", "k_scale[:, None]"),
    ("last token not written", "mask=(live & asks)[:, None])",
     "mask=(live & asks & (rows + 1 < num_rows))[:, None])"),
    ("queries meet values", "(live & (pair < CHUNK))[:, None], other=0.0)",
     "(live & (pair < CHUNK))[:, None], other=1.0)"),
]  # fmt: skip


@pytest.fixture(scope="module")
def red(plant) -> dict[str, list[str]]:
    """What the check says of each fault, from one process that interprets."""
    faults = [{"name": n, "subject": "", "old": o, "new": w} for n, o, w in FAULTS]
    return plant(Path(__file__).with_name("prefill_planted_script.py"), faults)


@pytest.mark.parametrize("name", [name for name, *_ in FAULTS])
def test_a_planted_fault_turns_the_check_red(red, name: str):
    assert bool(red[name]) == (name != "nothing changed")
