"""Drafters propose what they say; names mean what they say."""

import pytest
import torch

from engine.draft import mtp
from engine.draft.choose import make_drafter, resolve_drafter
from engine.draft.mtp import MtpRows
from engine.draft.scripted import HalfDrafter, ReplayDrafter, WrongDrafter, replayed
from engine.errors import RequestError
from engine.types import DRAFTERS
from tests.fakes.model import FakeModel

TRUTH = replayed([10, 11, 12, 13, 14])


def test_replay_proposes_the_rest_of_the_record():
    drafter = ReplayDrafter(TRUTH)
    assert drafter.propose(10, 1, 3) == [11, 12, 13]
    assert drafter.propose(13, 4, 3) == [14]
    assert drafter.propose(14, 5, 3) == []


def test_wrong_is_never_the_truth():
    assert WrongDrafter(TRUTH, 15).propose(11, 2, 3) == [13, 14, 0]


def test_half_is_right_in_every_other_round():
    drafter = HalfDrafter(TRUTH, 99)
    proposals = [drafter.propose(10, 1, 2) for _ in range(4)]
    assert proposals == [[11, 12], [12, 13]] * 2


@pytest.mark.parametrize("name", DRAFTERS)
def test_every_declared_name_resolves_to_a_drafter(name):
    resolved = resolve_drafter(name, "mtp", has_mtp=True)
    rows = MtpRows(FakeModel(lambda _: 0, guess=lambda _: 0).mtp, 10)
    assert make_drafter(resolved, rows, TRUTH, 99).name == resolved != "auto"


def test_auto_is_the_profiles_choice_where_there_is_a_head():
    assert resolve_drafter("auto", "mtp", has_mtp=True) == "mtp"
    assert resolve_drafter("auto", "mtp", has_mtp=False) == "off"
    assert resolve_drafter("auto", "off", has_mtp=True) == "off"
    assert resolve_drafter("auto", "auto", has_mtp=True) == "off"


def test_unknown_and_unavailable_drafters_are_refused():
    with pytest.raises(RequestError, match="no drafter 'mpt'. Did you mean 'mtp'?"):
        resolve_drafter("mpt", "mtp", has_mtp=True)
    with pytest.raises(RequestError, match="this checkpoint has none"):
        resolve_drafter("mtp", "mtp", has_mtp=False)


class Rows:
    """Follows a conversation; the fake head checks that no row is missing or wrong."""

    def __init__(self):
        self.model = FakeModel(lambda _: 0, guess=lambda context: sum(context) % 300)
        self.state = self.model.new_state(100)
        self.rows = MtpRows(self.model.mtp, 100)

    def read(self, *ids):
        hidden = torch.cat([self.model.step(one, self.state) for one in ids])
        self.rows.follow(ids, hidden)
        return hidden[-1:]


def test_rows_follow_the_target_however_they_arrive():
    for cuts in ([5], [1, 4], [2, 1, 2], [1, 1, 1, 1, 1]):
        one = Rows()
        ids = iter(range(1, 6))
        for cut in cuts:
            one.read(*(next(ids) for _ in range(cut)))
        assert one.rows.draft(6, 2) == [21, 42]
        one.read(6, 21)
        assert one.rows.draft(7, 1) == [49]


def test_rows_that_nobody_asks_for_do_not_pile_up(monkeypatch):
    monkeypatch.setattr(mtp, "MAX_WAITING_ROWS", 4)
    one = Rows()
    for token_id in range(1, 12):
        one.read(token_id)
        assert one.rows._num_waiting < 4
    assert one.rows.draft(12, 1) == [sum(range(13))]


def test_there_is_nothing_to_propose_before_the_first_row():
    assert Rows().rows.draft(1, 3) == []


@pytest.mark.parametrize("drafts_before", [False, True])
def test_rewinding_forgets_later_rows(drafts_before):
    one = Rows()
    hidden = one.read(1, 2, 3)
    snapshot = one.state.snapshot()
    one.read(4)
    if drafts_before:
        one.rows.draft(9, 1)
    one.read(5, 6)
    one.state.restore(snapshot)
    one.rows.rewind(3, hidden)
    assert one.rows.draft(7, 1) == [13]
    one.read(7, 8)
    assert one.rows.draft(9, 1) == [30]


def test_rewinding_to_the_beginning_forgets_everything():
    one = Rows()
    snapshot = one.state.snapshot()
    one.read(1, 2)
    one.state.restore(snapshot)
    one.rows.rewind(0, None)
    one.read(3, 4)
    assert one.rows.draft(5, 1) == [12]
