"""Rounds that the router prices: which run ahead, which teach a price, and what they tell of it."""

from dataclasses import replace

import pytest
import torch

from engine.draft.price_table import PriceTable
from engine.draft.prices import Prices
from engine.draft.routed import Routing
from engine.records import PHASES
from engine.turn.rows_round import RowsRound
from engine.turn.rows_verify import RowsVerifier
from tests.fakes.model import local_engine, run, write_text_files
from tests.fakes.rounds import CHEAP_ROWS, REPEATED, SAMPLINGS, requested

DEAR_ROWS = PriceTable("bf16", (1, 32), (1024,), ((10.0, 320.0),), (1, 2), (1.0, 2.0))


@pytest.mark.parametrize("table", [DEAR_ROWS, CHEAP_ROWS], ids=["dear rows", "cheap rows"])
def test_auto_runs_ahead_where_it_does_not_draft_and_changes_no_bit(
    model, walked, tmp_path, monkeypatch, table
):
    launch_behind, behind = RowsVerifier.launch_behind, []

    def watched(verifier, before):
        behind.append(launch_behind(verifier, before))
        return behind[-1]

    monkeypatch.setattr(RowsVerifier, "launch_behind", watched)
    wanted, sampling = walked
    routing = Routing(Prices(table, learns=False), max_steps=7)
    engine = local_engine(
        model, write_text_files(tmp_path), verifier=RowsVerifier(model), max_context_tokens=512,
        routing=routing,
    )  # fmt: skip
    request = requested(sampling=sampling, max_tokens=64, drafter="auto")
    got = run(engine, request)[-1].record
    num_wanted = len(wanted.token_ids)
    assert got.token_ids[:num_wanted] == wanted.token_ids
    assert torch.equal(got.logits[:num_wanted], wanted.logits)
    num_ahead = sum(one is not None for one in behind)
    assert num_ahead > 10 if table is DEAR_ROWS else num_ahead < len(got.rounds)


def test_a_round_that_was_captured_teaches_no_price(model, tmp_path, monkeypatch):
    wait, flags, taught = RowsRound.wait, [], []

    def waited(launched, commit):
        flags.append(len(flags) % 3 == 1)
        return replace(wait(launched, commit), was_captured=flags[-1])

    monkeypatch.setattr(RowsRound, "wait", waited)
    prices = Prices(CHEAP_ROWS)
    monkeypatch.setattr(prices, "observe", lambda rows, *_, **__: taught.append(rows))
    engine = local_engine(
        model, write_text_files(tmp_path), verifier=RowsVerifier(model), max_context_tokens=512,
        routing=Routing(prices, max_steps=7),
    )  # fmt: skip
    request = requested(sampling=SAMPLINGS["greedy"], max_tokens=64, drafter="auto")
    rounds = run(engine, request)[-1].record.rounds
    told = zip(rounds, flags, strict=True)
    assert taught == [one.rows for one, captured in told if one.index and not captured]
    assert len(taught) > 1


def test_prices_are_told_what_each_round_was_and_whether_its_draft_was_waited_for(
    model, tmp_path, monkeypatch
):
    """The time of a draft that was made while the round before ran would pass for the host's."""
    launch, wait, prices = RowsVerifier.launch, RowsRound.wait, Prices(CHEAP_ROWS)
    asked, waited, told = [], [], []

    def launching(*arguments):
        asked.append(launch(*arguments))
        return asked[-1]

    def waiting(one, commit):
        draft, start = one.draft, one.course.state.length
        waited.append(
            (draft.plan.num_nodes, draft.num_steps, draft.shape == "tree", one in asked, start)
        )
        return wait(one, commit)

    def observe(num_rows, context_tokens, num_steps, ms, *, branches, with_block, was_asked):
        assert set(ms) == set(PHASES)
        assert not with_block
        told.append((num_rows, num_steps, branches, was_asked, context_tokens))

    monkeypatch.setattr(RowsVerifier, "launch", launching)
    monkeypatch.setattr(RowsRound, "wait", waiting)
    monkeypatch.setattr(prices, "observe", observe)
    engine = local_engine(
        model, write_text_files(tmp_path), verifier=RowsVerifier(model), max_context_tokens=512,
        routing=Routing(prices, max_steps=7),
    )  # fmt: skip
    run(engine, requested(sampling=REPEATED, max_tokens=64, drafter="auto"))
    assert told == waited[1:]  # the first one pays for the prompt
    assert {one[3] for one in told} == {True, False}
