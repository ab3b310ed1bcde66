"""A round that is foreseen is on its way before the one ahead of it has said what it brought."""

import pytest
import torch

from engine.draft.lookup import LookupDrafter
from engine.draft.prices import Prices
from engine.draft.routed import RoutedDrafter, Routing
from engine.draft.scripted import ScriptedDrafter
from engine.turn.rows_verify import RowsVerifier
from tests.fakes.model import local_engine, run, write_text_files
from tests.fakes.rounds import CHEAP_ROWS, REPEATED, answered_alike, requested


@pytest.fixture
def readied(monkeypatch):
    """What came of each round that was got ready: whether it was launched."""
    launch_ready, went = RowsVerifier.launch_ready, []

    def watched(verifier, ready):
        launched = launch_ready(verifier, ready)
        went.append(launched is not None)
        return launched

    monkeypatch.setattr(RowsVerifier, "launch_ready", watched)
    return went


@pytest.mark.parametrize("shape", ["chain", "tree"])
@pytest.mark.parametrize("drafter", ["wrong", "half", "replay"])
def test_a_round_that_is_foreseen_is_on_its_way_before_anything_is_committed(
    open_engine, walked, readied, drafter, shape
):
    got = answered_alike(open_engine, walked, drafter, shape)
    num_shapes = len({one.rows for one in got.rounds})  # each is captured, and not foreseen, once
    assert len(readied) >= len(got.rounds) - 1 - num_shapes
    assert readied
    assert all(readied)


def test_a_round_that_was_foreseen_otherwise_is_not_launched(
    open_engine, walked, readied, monkeypatch
):
    """Every other guess is wrong in its last token."""
    wanted, sampling = walked
    prepare, guesses = ScriptedDrafter.prepare, []

    def mistaken(drafter, *others):
        foreseen = prepare(drafter, *others)
        if foreseen is not None:
            guesses.append(foreseen)
            if len(guesses) % 2:
                *right, last = foreseen.token_ids
                foreseen = foreseen._replace(token_ids=[*right, last + 1])
        return foreseen

    monkeypatch.setattr(ScriptedDrafter, "prepare", mistaken)
    request = requested(
        sampling=sampling, max_tokens=32, drafter="replay", num_draft_tokens=2,
        replay_ids=wanted.token_ids,
    )  # fmt: skip
    got = run(open_engine(), request)[-1].record
    assert got.token_ids == wanted.token_ids
    assert torch.equal(got.logits, wanted.logits)
    assert readied == [bool(at % 2) for at in range(len(readied))]
    assert len(readied) > 6


@pytest.mark.parametrize("kind", [LookupDrafter, RoutedDrafter], ids=["lookup", "auto"])
def test_a_copy_is_foreseen(model, readied, tmp_path, monkeypatch, kind):
    """What is said again is copied, round behind round, and no bit depends on it."""
    prepare, propose, foreseen = kind.prepare, kind.propose, []

    def preparing(*arguments):
        foreseen.append(prepare(*arguments))
        return foreseen[-1]

    def proposing(*arguments):
        draft, went = propose(*arguments), len(readied)
        if foreseen and foreseen[-1] is not None and went and readied[-1]:
            assert draft == foreseen[-1].draft
        return draft

    monkeypatch.setattr(kind, "prepare", preparing)
    monkeypatch.setattr(kind, "propose", proposing)
    drafter = "lookup" if kind is LookupDrafter else "auto"
    routing = Routing(Prices(CHEAP_ROWS, learns=False), max_steps=7)
    records = []
    for name in ("off", drafter):
        engine = local_engine(
            model, write_text_files(tmp_path / name), verifier=RowsVerifier(model),
            max_context_tokens=512, routing=routing,
        )  # fmt: skip
        request = requested(sampling=REPEATED, max_tokens=64, drafter=name, num_draft_tokens=5)
        records.append(run(engine, request)[-1].record)
    plain, got = records
    assert got.token_ids == plain.token_ids
    assert torch.equal(got.logits, plain.logits)
    assert sum(readied) > 3
