"""Drafters propose what they say; names mean what they say."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from engine.dflash.block import Lattice
from engine.draft import mtp
from engine.draft.choose import (
    DraftSources,
    make_drafter,
    num_proposals,
    resolve_drafter,
    shape_notice,
)
from engine.draft.mtp import MtpRows
from engine.draft.ngrams import NgramIndex
from engine.draft.scripted import ScriptedDrafter, replayed
from engine.errors import RequestError
from engine.types import DRAFT_SHAPES, DRAFTERS
from kernels.common.round import MAX_ROWS
from tests.fakes.model import FakeModel

TRUTH = replayed([10, 11, 12, 13, 14])


def scripted(name, *, siblings=False, num_ids=99):
    return ScriptedDrafter(name, TRUTH, num_ids, siblings=siblings)


def test_replay_proposes_the_rest_of_the_record():
    drafter = scripted("replay")
    assert drafter.propose(10, 1, 3).token_ids == (11, 12, 13)
    assert drafter.propose(13, 4, 3).token_ids == (14,)
    assert drafter.propose(14, 5, 3).token_ids == ()


def test_wrong_is_never_the_truth():
    assert scripted("wrong", num_ids=15).propose(11, 2, 3).token_ids == (13, 14, 0)


def test_half_is_right_in_every_other_round():
    drafter = scripted("half")
    proposals = [drafter.propose(10, 1, 2).token_ids for _ in range(4)]
    assert proposals == [(11, 12), (12, 13)] * 2


@pytest.mark.parametrize("num_tokens", range(1, 8))
@pytest.mark.parametrize("name", ["replay", "wrong"])
def test_siblings_of_a_scripted_chain_are_wrong(name, num_tokens):
    """The chain is what it is without them, and no two rows under one parent are alike."""
    draft = scripted(name, siblings=True).propose(10, 1, num_tokens)
    chain = scripted(name).propose(10, 1, (num_tokens + 1) // 2).token_ids
    paths = [tuple(draft.token_ids[row - 1] for row in path[1:]) for path in draft.plan.paths]
    assert chain in paths
    assert len(set(paths)) == len(paths) <= num_tokens + 1
    beginnings = [chain[:length] for length in range(len(chain) + 1)]
    siblings = [one for one in paths if one not in beginnings]
    assert len(siblings) == min(num_tokens // 2, len(chain))
    for one in siblings:
        right = (11, 12, 13, 14)[len(one) - 1]
        assert one[:-1] in beginnings
        assert one[-1] not in (right, chain[len(one) - 1])
    assert draft.shape == ("chain" if num_tokens == 1 else "tree")


@pytest.mark.parametrize("shape", DRAFT_SHAPES)
@pytest.mark.parametrize("name", DRAFTERS)
def test_every_declared_name_resolves_to_a_drafter(name, shape):
    resolved = resolve_drafter(name, "mtp", has_mtp=True, has_dflash=True)
    rows = MtpRows(FakeModel(lambda _: 0, guess=lambda _: 0).mtp, 10)
    lattice = Lattice([[3, 4]], [[[1.0, 0.5]] * 2])
    drafter = SimpleNamespace(moved_bytes=lambda _: 1)
    dflash: Any = SimpleNamespace(propose=lambda _: lattice, num_read=1, drafter=drafter)
    sources = DraftSources(rows, NgramIndex(), (1,), [2], TRUTH, 99, dflash=dflash)
    drafter = make_drafter(resolved, shape, sources)
    assert drafter.name == resolved != "auto"
    assert len(drafter.propose(2, 1, 3).token_ids) <= 3


def test_auto_is_the_profiles_choice_where_the_checkpoint_can_serve_it():
    assert resolve_drafter("auto", "mtp", has_mtp=True) == "mtp"
    assert resolve_drafter("auto", "mtp", has_mtp=False) == "off"
    assert resolve_drafter("auto", "lookup", has_mtp=False) == "lookup"
    assert resolve_drafter("auto", "off", has_mtp=True) == "off"
    assert resolve_drafter("auto", "auto", has_mtp=True) == "off"
    assert resolve_drafter("auto", "dflash2", has_mtp=True) == "off"
    assert resolve_drafter("auto", "dflash2", has_mtp=True, has_dflash=True) == "dflash2"


def test_auto_is_routed_where_rounds_are_unless_the_profile_is_against_drafting():
    assert resolve_drafter("auto", "mtp", has_mtp=True, routes=True) == "auto"
    assert resolve_drafter("auto", "mtp", has_mtp=False, routes=True) == "auto"
    assert resolve_drafter("auto", "off", has_mtp=True, routes=True) == "off"
    assert resolve_drafter("mtp", "off", has_mtp=True, routes=True) == "mtp"


def test_nothing_is_routed_without_prices():
    rows = MtpRows(FakeModel(lambda _: 0, guess=lambda _: 0).mtp, 10)
    sources = DraftSources(rows, NgramIndex(), (1,), [2], TRUTH, 99)
    with pytest.raises(ValueError, match="no 'auto' for this turn"):
        make_drafter("auto", "auto", sources)


def test_a_round_proposes_what_its_drafter_can():
    assert [num_proposals(one, None, 7) for one in ("mtp", "lookup", "replay")] == [3, 15, 3]
    assert [num_proposals(one, 99, 31) for one in ("mtp", "lookup", "replay")] == [7, 31, 31]
    assert [num_proposals(one, 5, 2) for one in ("mtp", "lookup", "replay")] == [2, 5, 5]


def test_a_tree_that_the_head_cannot_make_is_no_secret():
    assert "chains" in shape_notice("mtp", "tree")
    assert not any(shape_notice(one, "tree") for one in DRAFTERS if one != "mtp")
    assert not shape_notice("mtp", "auto")


def test_unknown_and_unavailable_drafters_are_refused():
    with pytest.raises(RequestError, match="no drafter 'mpt'. Did you mean 'mtp'?"):
        resolve_drafter("mpt", "mtp", has_mtp=True)
    with pytest.raises(RequestError, match="this checkpoint has none"):
        resolve_drafter("mtp", "mtp", has_mtp=False)
    with pytest.raises(RequestError, match=r"not loaded. Set draft\.dflash_dir"):
        resolve_drafter("dflash2", "mtp", has_mtp=True)


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
        assert len(one.rows._following) < 4
    assert one.rows.draft(12, 1) == [sum(range(13))]


@pytest.mark.parametrize("num_committed", [1, 2, 5])
def test_waiting_rows_do_not_keep_the_rounds_that_they_are_of(num_committed):
    rows = MtpRows(FakeModel(lambda _: 0, guess=lambda _: 0).mtp, 2000)
    for _ in range(900 // num_committed):
        of_a_round = torch.zeros((MAX_ROWS, 2), dtype=torch.bfloat16)
        rows.follow((0,) * num_committed, of_a_round[:num_committed])
    storages = {one.untyped_storage().data_ptr(): one.untyped_storage() for one in rows._waiting}
    num_held = sum(one.nbytes() for one in storages.values()) // 4
    assert num_held <= mtp.MAX_WAITING_ROWS + (mtp.MAX_PIECES + 1) * MAX_ROWS


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
