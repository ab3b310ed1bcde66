"""The rows that a draft reads are where it reads them before the round that leaves them has ended.

So nothing of a row is copied between what came of a round and the draft behind it.
"""

import pytest
import torch

from engine.model.kernel_mtp import KernelMtp
from engine.model.placed_rows import PlacedRows
from tests.fakes.model import run
from tests.fakes.rounds import requested


@pytest.fixture
def copied(monkeypatch) -> list[int]:
    """For each draft, how often rows were copied within it."""
    counts: list[int] = []
    put, draft, is_drafting = PlacedRows.put, KernelMtp.draft, []

    def noted_put(placed, rows):
        put(placed, rows)
        if is_drafting:
            counts[-1] += 1

    def noted_draft(mtp, *arguments):
        counts.append(0)
        is_drafting.append(True)
        try:
            return draft(mtp, *arguments)
        finally:
            is_drafting.clear()

    monkeypatch.setattr(PlacedRows, "put", noted_put)
    monkeypatch.setattr(KernelMtp, "draft", noted_draft)
    return counts


@pytest.mark.parametrize("num_tokens", [3, 7])
def test_a_turn_copies_no_row_for_a_draft_but_for_the_first(open_engine, copied, num_tokens):
    request = requested(drafter="mtp", num_draft_tokens=num_tokens, max_tokens=24)
    record = run(open_engine(), request)[-1].record
    assert len(record.rounds) - 1 == len(copied) > 2  # the last one has no room for a draft
    assert copied[0] > 0  # the prompt's
    assert set(copied[1:]) == {0}


def test_rows_are_known_by_where_they_stand():
    place = torch.zeros((4, 8), dtype=torch.bfloat16)
    placed = PlacedRows(place)
    one, others = torch.ones((1, 8), dtype=torch.bfloat16), torch.full((3, 8), 2.0).bfloat16()
    placed.put((one, others))
    assert place[:, 0].tolist() == [1, 2, 2, 2]
    assert placed.begins_with((one, others[:1], others[1:2]))
    assert placed.begins_with((one,))
    assert not placed.begins_with((one, others[1:]))
    assert not placed.begins_with((others,))
    assert not placed.begins_with((one.clone(), others))
    assert not placed.begins_with((one, others, one))
    placed.put((others[2:],))
    assert not placed.begins_with((one,))
    assert place[:, 0].tolist() == [2, 2, 2, 2]
    placed.forget()
    assert not placed.begins_with((others[2:],))


def test_rows_that_were_read_are_not_kept(model):
    mtp, hidden = model.mtp, torch.zeros((900, model.config.hidden_size), dtype=torch.bfloat16)
    hidden = hidden.to(model.device)
    state = mtp.new_state(1024)
    mtp.fill(hidden[:800], range(800), state)
    assert mtp._placed._rows == ()
    mtp.draft((hidden[800:820], hidden[820:821]), range(21), state, 1)
    assert sum(one.untyped_storage().nbytes() for one in mtp._placed._rows) <= 8 * hidden[0].nbytes
