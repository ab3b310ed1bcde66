"""Turns that DFlash2 drafts have plain decode's bits; its context is that of a fresh reading."""

import hashlib
import threading
from dataclasses import replace
from functools import cache
from itertools import cycle

import pytest
import torch

from engine.compute_path import HELD_FORMATS
from engine.dflash.attach import attach_dflash
from engine.dflash.block import Lattice
from engine.dflash.checkpoint import open_dflash
from engine.draft.dflash import DflashRows
from engine.draft.price_table import PriceTable
from engine.draft.prices import ROW_CLASSES, Prices
from engine.draft.routed import Routing
from engine.model.config import SHAPE_DEMO
from engine.model.packing import Launching, Packer
from engine.model.random import random_model
from engine.profile import Formats
from engine.turn.rows_verify import RowsVerifier
from engine.types import Request, Sampling
from tests.engine.dflash.drafters import DEMO_DRAFTER, write_dflash
from tests.fakes.model import local_engine, run, write_text_files

pytestmark = pytest.mark.usefixtures("one_thread")

GREEDY = Sampling(temperature=0.0)
SEEDED = Sampling(temperature=0.8, top_k=40, top_p=0.95, seed=1234)
PROMPTS = (
    tuple(range(5, 16)),
    tuple(7 * one % 300 for one in range(70)),
    (299, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233),
)
SAMPLINGS = {"greedy": GREEDY, "seeded": SEEDED}
NEAR = 2**-6


class Talk:
    """An engine with a drafter; ``num_tokens`` is how long its answers are, to keep tests short."""

    def __init__(self, folder, *, packed: bool):
        self.num_tokens = 12 if packed else 48
        on_gpu = packed and torch.cuda.is_available()
        capability = torch.cuda.get_device_capability() if on_gpu else (9, 0)
        launching = Launching(capability, overlap=on_gpu)
        packer = Packer(launching) if packed else None
        formats = Formats("nvfp4", "fp8_block", "e4m3_row", "e4m3_row", "nvfp4")
        formats = formats if packed else HELD_FORMATS
        device = "cuda" if on_gpu else "cpu"
        model = random_model(SHAPE_DEMO, formats, device=device, seed=3, packer=packer)
        checkpoint = open_dflash(write_dflash(folder / "drafter"), SHAPE_DEMO)
        self.source = attach_dflash(
            model, checkpoint, on_progress=None, cancel=threading.Event(),
            packer=Packer(launching) if packed else None, stored="bf16",
        )  # fmt: skip
        self.engine = local_engine(
            model, write_text_files(folder), verifier=RowsVerifier(model) if packed else None,
            stop_ids=frozenset(), dflash=self.source, max_context_tokens=256,
        )  # fmt: skip
        self.plain = cache(lambda prompt, sampling: self.answer(prompt, sampling, drafter="off"))

    def answer(self, prompt: int, sampling: Sampling, *, max_tokens=None, **options):
        request = Request(
            prompt_ids=PROMPTS[prompt], sampling=sampling, keep_logits=True,
            max_tokens=max_tokens or self.num_tokens, **options,
        )  # fmt: skip
        record = run(self.engine, request)[-1].record
        assert record.error == ""
        return record


@pytest.fixture(scope="module")
def walk(tmp_path_factory):
    """Rows one by one, in plain torch."""
    talk = Talk(tmp_path_factory.mktemp("walk"), packed=False)
    yield talk
    talk.engine.close()


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """Rows together, over packed weights: by captured kernels on a GPU, here by references."""
    talk = Talk(tmp_path_factory.mktemp("rows"), packed=True)
    yield talk
    talk.engine.close()


@pytest.fixture(scope="module", params=["walk", "rows"])
def talk(request):
    return request.getfixturevalue(request.param)


def digest(record) -> str:
    return hashlib.sha256(record.logits.numpy().tobytes()).hexdigest()


def told(lattice: Lattice, truth: list[int], num_right: int) -> Lattice:
    """A lattice in which so many places hold the truth, the best of all in every other round."""
    ids, scores = [list(one) for one in lattice.ids], [list(map(list, s)) for s in lattice.scores]
    for place, token_id in enumerate(truth[:num_right]):
        at = ids[place].index(token_id) if token_id in ids[place] else 3
        ids[place][at] = token_id
        for row in scores[place]:
            row[at] = max(row) + (1.0 if len(truth) % 2 else 0.0)
    return Lattice(ids, scores)


@pytest.mark.parametrize("shape", ["chain", "tree"])
@pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=SAMPLINGS)
@pytest.mark.parametrize(
    ("talk", "prompt"), [("walk", 0), ("walk", 1), ("walk", 2), ("rows", 0)], indirect=["talk"]
)
def test_drafting_changes_no_bit(talk, monkeypatch, prompt, sampling, shape):
    """The drafter is told the truth of up to three places, so that rounds take some and not all."""
    wanted = talk.plain(prompt, sampling)
    drafter, truth = talk.source.drafter, list(wanted.token_ids)
    propose, num_right = drafter.propose, cycle((2, 0, 3, 1))

    def informed(token_id, state):
        done = state.length - len(PROMPTS[prompt]) + 1
        return told(propose(token_id, state), truth[done : done + 7], next(num_right))

    monkeypatch.setattr(drafter, "propose", informed)
    got = talk.answer(prompt, sampling, drafter="dflash2", draft_shape=shape)
    assert got.token_ids == wanted.token_ids
    assert digest(got) == digest(wanted)
    rounds = got.rounds
    assert {one.drafter for one in rounds} == {"dflash2"}
    assert {one.shape for one in rounds if one.rows > 7} == {shape}
    most = max(one.rows for one in rounds)
    assert most == 8 if shape == "chain" else 8 < most <= 16
    accepted = [one.accepted for one in rounds]
    assert sum(accepted) > talk.num_tokens // 6
    assert {0, 2} <= set(accepted)
    own = drafter.moved_bytes(rounds[0].context_tokens)
    assert rounds[0].num_bytes["drafter"] == own > drafter.weight_bytes // 2


@pytest.mark.parametrize("shape", ["auto", "chain", "tree"])
def test_a_drafter_that_nobody_tells_changes_no_bit(walk, shape):
    wanted = walk.plain(1, SEEDED)
    got = walk.answer(1, SEEDED, drafter="dflash2", draft_shape=shape)
    assert (got.token_ids, digest(got)) == (wanted.token_ids, digest(wanted))
    whole = [one for one in got.rounds if one.rows == (16 if shape == "tree" else 8)]
    assert len(whole) > 30
    assert {one.shape for one in whole} == {"tree" if shape == "tree" else "chain"}


CHEAP_BLOCKS = PriceTable(
    "bf16", (1, 32), (1024,), ((10.0, 20.0),), (1, 7), (0.3, 2.1), block_ms=0.5
)


@pytest.mark.parametrize("shape", ["auto", "chain"])
@pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=SAMPLINGS)
@pytest.mark.parametrize(("talk", "prompt"), [("walk", 2), ("rows", 0)], indirect=["talk"])
def test_routing_with_blocks_changes_no_bit(talk, monkeypatch, prompt, sampling, shape):
    """Blocks are told the truth of some places, as above, and the head's own guesses join them."""
    wanted = talk.plain(prompt, sampling)
    drafter, truth = talk.source.drafter, list(wanted.token_ids)
    propose, num_right = drafter.propose, cycle((2, 3, 5, 1))

    def informed(token_id, state):
        done = state.length - len(PROMPTS[prompt]) + 1
        return told(propose(token_id, state), truth[done : done + 7], next(num_right))

    monkeypatch.setattr(drafter, "propose", informed)
    routing = Routing(Prices(CHEAP_BLOCKS, learns=False), max_steps=7)
    machine = replace(talk.engine._machine, routing=routing)
    monkeypatch.setattr(talk.engine, "_machine", machine)
    got = talk.answer(prompt, sampling, drafter="auto", draft_shape=shape)
    assert got.token_ids == wanted.token_ids
    assert digest(got) == digest(wanted)
    assert {one.rows for one in got.rounds} <= set(ROW_CLASSES)
    blocks = [one for one in got.rounds if "dflash2" in one.drafter]
    assert sum(one.accepted for one in blocks) > 2
    own = drafter.moved_bytes(len(PROMPTS[prompt]))
    assert all(one.num_bytes["drafter"] >= own for one in blocks)
    if shape == "chain":
        assert {one.shape for one in got.rounds} == {"chain"}
        assert {one.drafter for one in got.rounds} <= {"dflash2", "mtp", "lookup", "off"}
    expect_same_context(talk, got)


def fresh_context(talk, record) -> DflashRows:
    """A context that is read anew as the record says the target computed it."""
    model, ids = talk.engine._machine.model, (*record.prompt_ids, *record.token_ids)
    rows, state = DflashRows(talk.source, 256), model.new_state(256)
    for one in record.ranges:
        piece = ids[one.start : one.end]
        if one.how == "decode":
            model.decode(piece, state)
        else:
            model.prefill(piece, state, chunk_tokens=one.chunk_tokens)
        rows.follow(len(piece))
    return rows


def expect_same_context(talk, record) -> None:
    held, fresh = talk.engine._memory.dflash, fresh_context(talk, record)
    assert held.num_read == fresh.num_read == len(talk.engine._memory.ids)
    proposed = [one.propose(5) for one in (held, fresh)]  # both catch up
    length = held._state.length
    assert length == fresh._state.length == held.num_read
    for name in ("keys", "values"):
        one, other = (getattr(rows._state.kv, name)[:, :, :length] for rows in (held, fresh))
        torch.testing.assert_close(one, other, rtol=NEAR, atol=NEAR)
    assert proposed[0].ids[0][0] == proposed[1].ids[0][0]


WHOEVER = [
    ("off", "auto"), ("mtp", "chain"), ("dflash2", "chain"), ("dflash2", "tree"),
    ("wrong", "tree"), ("half", "tree"), ("replay", "chain"), ("lookup", "auto"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("talk", "drafter", "shape"),
    [*(("walk", *one) for one in WHOEVER), ("rows", "dflash2", "tree"), ("rows", "half", "tree")],
    indirect=["talk"],
)
def test_the_context_is_kept_whoever_drafts(talk, drafter, shape):
    replay_ids = talk.plain(0, SEEDED).token_ids if drafter == "replay" else ()
    record = talk.answer(
        0, SEEDED, drafter=drafter, draft_shape=shape, replay_ids=replay_ids, max_tokens=12
    )
    assert {one.drafter for one in record.rounds} == {drafter}
    expect_same_context(talk, record)


def test_a_conversation_that_goes_back_and_branches_keeps_its_context(talk):
    first = talk.answer(1, GREEDY, drafter="dflash2", max_tokens=10)
    expect_same_context(talk, first)
    again = talk.answer(1, SEEDED, drafter="dflash2", draft_shape="tree", max_tokens=10)
    assert again.reused_tokens == len(PROMPTS[1])
    expect_same_context(talk, again)
    longer = (*PROMPTS[1], *again.token_ids, 9, 8, 7)
    request = Request(prompt_ids=longer, sampling=GREEDY, max_tokens=9, drafter="dflash2")
    branch = run(talk.engine, request)[-1].record
    assert branch.reused_tokens == len(longer) - 4
    assert {one.drafter for one in branch.rounds} == {"dflash2"}
    expect_same_context(talk, branch)


def test_a_block_repeats_itself(talk):
    """On a GPU the first is launched kernel by kernel, and the second one graph."""
    talk.answer(0, GREEDY, drafter="off", max_tokens=2)
    rows = talk.engine._memory.dflash
    first = rows.propose(5)
    assert rows.propose(5) == first
    assert rows.propose(6) != first
    assert rows.propose(5) == first


def test_a_failure_in_mid_turn_leaves_a_drafter_that_begins_anew(walk, monkeypatch):
    def fails(*_):
        raise RuntimeError("the device was lost")

    with monkeypatch.context() as patch:
        patch.setattr(walk.source.drafter, "propose", fails)
        request = Request(prompt_ids=PROMPTS[0], max_tokens=9, drafter="dflash2")
        record = run(walk.engine, request)[-1].record
        assert "the device was lost" in record.error
    wanted = walk.plain(0, GREEDY)
    got = walk.answer(0, GREEDY, drafter="dflash2")
    assert (got.token_ids, digest(got)) == (wanted.token_ids, digest(wanted))
    expect_same_context(walk, got)


def test_a_block_at_the_end_of_the_context_is_cut(walk):
    room = 256 - len(PROMPTS[1])
    record = walk.answer(1, GREEDY, drafter="off", max_tokens=room - 12)
    request = Request(
        prompt_ids=(*PROMPTS[1], *record.token_ids), sampling=GREEDY, drafter="dflash2",
        ignore_stop_ids=True,
    )  # fmt: skip
    last = run(walk.engine, request)[-1].record
    assert (last.error, last.finish_reason) == ("", "context_full")
    assert [one.rows for one in last.rounds][-1] <= 2
    assert DEMO_DRAFTER.block_size in {one.rows for one in last.rounds}
