"""A round's rows computed together have, bit for bit, what single steps have."""

import copy
import random
from dataclasses import replace

import pytest
import torch

from engine.draft.draft import Draft
from engine.draft.mtp import MtpRows
from engine.model.config import SHAPE_DEMO, hybrid_layers
from engine.model.footprint import kv_scale_bytes, record_bytes, state_bytes, tail_bytes
from engine.model.kv_scales import calibrate
from engine.model.packing import Launching, Packer
from engine.model.random import random_model
from engine.model.serving_memory import kept_bytes
from engine.profile import Formats
from engine.turn.choice import TokenChooser
from engine.turn.memory import Memory
from engine.turn.rounds import Rounds
from engine.turn.rows_verify import RowsVerifier
from engine.turn.verify import Course, RowWalk
from engine.types import KV_FORMATS, Sampling
from kernels.common.compare import bits_of

FOUR_LAYERS = replace(SHAPE_DEMO, layer_kinds=hybrid_layers(4))
PROMPT = [7 * one % 300 for one in range(70)]
SAMPLINGS = {
    "greedy": Sampling(temperature=0.0),
    "seeded": Sampling(temperature=0.8, top_k=20, top_p=0.95, seed=5),
    "penalised": Sampling(temperature=0.9, presence_penalty=0.7, repetition_penalty=1.1, seed=6),
    "biased": Sampling(
        temperature=0.7,
        repetition_penalty=1.2,
        seed=7,
        logit_bias=((3, -1e6), (17, 4.0), (250, 2.5)),
    ),
}


DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
"""On a GPU rounds are captured graphs of the kernels, here their references."""


@pytest.fixture(
    scope="module", params=[(one, kv) for one in DEVICES for kv in KV_FORMATS], ids="-".join
)
def model(request):
    device, kv = request.param
    formats = Formats("nvfp4", "fp8_block", "e4m3_row", "e4m3_row", "nvfp4")
    capability = torch.cuda.get_device_capability() if device == "cuda" else (9, 0)
    packer = Packer(Launching(capability, overlap=device == "cuda"))
    shape = SHAPE_DEMO if kv == "bf16" else FOUR_LAYERS
    model = random_model(shape, formats, device=device, packer=packer)
    if kv == "fp8":
        model.kv_scales = calibrate(model, [PROMPT])
    return model


class Answer:
    """What rounds leave behind: chosen ids, their logits, and the settled state."""

    def __init__(self, model, verifier, sampling):
        self.state = model.new_state(1024)
        model.prefill(PROMPT, self.state)
        self._chooser = TokenChooser(sampling, model.config.vocab_size, PROMPT)
        course = Course(self.state, self._chooser, keeps_logits=True)
        self.on_their_way = Rounds(verifier, course, model.device)
        self.ids, self.logits, self.rounds = [5], [], []

    def round(self, draft: Draft) -> None:
        self.launch(draft)
        self.take()

    def launch(self, draft: Draft) -> None:
        self.on_their_way.launch(self.ids[-1], lambda: draft, room=999)

    def take(self) -> None:
        verified = self.on_their_way.take(self._commit).verified
        self.logits += verified.logits
        self.rounds.append(verified)

    def _commit(self, token_id: int) -> bool:
        self._chooser.note(token_id)
        self.ids.append(token_id)
        return True


@pytest.fixture(scope="module", params=SAMPLINGS)
def plain(request, model):
    answer = Answer(model, RowWalk(model), SAMPLINGS[request.param])
    for _ in range(24):
        answer.round(Draft.chain(()))
    return SAMPLINGS[request.param], answer


def drafts_around(truth: list[int], draw: random.Random, shape: str) -> Draft:
    """Drafts of which some rows are right: a chain that goes wrong, or a tree around one."""
    right = truth[: draw.randint(0, 5)]
    if shape == "chain":
        return Draft.chain([*right, *(draw.randrange(300) for _ in range(draw.randint(0, 2)))])
    ids, parents = list(right), list(range(len(right)))
    for _ in range(draw.randint(1, 5)):
        ids.append(draw.randrange(300))
        parents.append(draw.randint(0, len(ids) - 1))
    return Draft.tree(ids, parents)


@pytest.mark.parametrize("shape", ["chain", "tree"])
def test_rounds_of_any_draft_are_plain_decode(model, plain, shape):
    sampling, wanted = plain
    answer = Answer(model, RowsVerifier(model), sampling)
    draw = random.Random(shape)
    while len(answer.ids) < 25:
        answer.round(drafts_around(wanted.ids[len(answer.ids) :][:5], draw, shape))
    assert max(one.accepted for one in answer.rounds) > 2
    assert {len(one.chosen) for one in answer.rounds} > {1}
    number = min(len(answer.ids), 25)
    assert answer.ids[:number] == wanted.ids[:number]
    for one, other in zip(answer.logits[: number - 1], wanted.logits, strict=False):
        assert torch.equal(one, other)


def test_a_commit_apart_changes_no_bit(model, plain):
    sampling, wanted = plain
    apart = copy.copy(model)
    apart.launching = replace(model.launching, commit_in_verify=False)
    answer = Answer(apart, RowsVerifier(apart), sampling)
    answer.round(Draft.chain(wanted.ids[1:4]))
    answer.round(Draft.chain(wanted.ids[len(answer.ids) :][:2]))
    assert len(answer.ids) > 4
    assert answer.ids == wanted.ids[: len(answer.ids)]
    assert all(map(torch.equal, answer.logits, wanted.logits))


def test_a_settled_state_is_that_of_single_steps(model):
    rounds = Answer(model, RowsVerifier(model), SAMPLINGS["greedy"])
    steps = Answer(model, RowWalk(model), SAMPLINGS["greedy"])
    while len(steps.ids) < 9:
        steps.round(Draft.chain(()))
    rounds.round(Draft.chain(steps.ids[1:5]))
    rounds.round(Draft.tree([1, steps.ids[6], 2, steps.ids[7]], [0, 0, 2, 2]))
    assert rounds.state.length == steps.state.length
    for answer in (rounds, steps):
        answer.state.settle()
    assert torch.equal(rounds.state.recurrent, steps.state.recurrent)
    assert torch.equal(rounds.state.tails, steps.state.tails)
    length = rounds.state.length
    for kept in ("keys", "values"):
        one, other = (getattr(answer.state.kv, kept) for answer in (rounds, steps))
        assert torch.equal(bits_of(one[:, :, :length]), bits_of(other[:, :, :length]))


def test_the_state_holds_the_bytes_of_the_plan(model):
    config, state = model.config, model.new_state(1024)
    results = 32 * (2 * config.hidden_size + 4 * config.vocab_size)
    planned = state_bytes(config) + tail_bytes(config) + record_bytes(config) - results
    kept = kept_bytes(config, 1024, packed=True, with_mtp=False, kv=model.kv_format)["context"]
    assert state.num_bytes == planned + kept - kv_scale_bytes(config, model.kv_format)


def test_a_state_in_place_of_another_is_told_by_its_addresses(model):
    one, other = model.new_state(64), model.new_state(64)
    other.kv = one.kv  # as when an allocator gives freed memory out again
    assert model.addresses(one) != model.addresses(other)


def test_keys_of_the_draft_head_stay_where_captured_graphs_read_them(model):
    memory = Memory(model, 1024, 0)
    memory.read(PROMPT, model.prefill(PROMPT, memory.state), "prefill", 256)
    proposed, places = memory.mtp.draft(5, 2), memory.mtp._state.addresses
    memory.read([5] * 400, memory.last_hidden.expand(400, -1), "decode")
    memory.mtp.draft(5, 2)
    memory.forget()
    memory.read(PROMPT, model.prefill(PROMPT, memory.state), "prefill", 256)
    assert memory.mtp.draft(5, 2) == proposed
    assert memory.mtp._state.addresses == places


@pytest.mark.parametrize("num_unread", [0, 1, 5, 7, 8, 32, 33, 70])
def test_a_draft_reads_what_is_unread_first(model, num_unread):
    mtp, hidden = model.mtp, model.prefill(PROMPT, model.new_state(1024))
    rows = hidden.repeat(100 // len(hidden) + 1, 1)[: num_unread + 1]
    ids = [(7 * row) % 150 for row in range(num_unread)]
    # as many positions as the chain comes to: rows that mean nothing are launched beyond the last
    apart, at_once = mtp.new_state(1024), mtp.new_state(num_unread + 3)
    for row, token_id in enumerate(ids):
        mtp.fill(rows[row : row + 1], [token_id], apart)
    wanted = mtp.draft([rows[-1:]], [5], apart, 3)
    assert mtp.draft([rows[:-1], rows[-1:]], [*ids, 5], at_once, 3) == wanted
    assert at_once.length == apart.length == num_unread
    for kept in ("keys", "values"):
        one, other = (getattr(state.kv, kept)[:, :, :num_unread] for state in (at_once, apart))
        torch.testing.assert_close(one, other, rtol=2**-7, atol=2**-7)


def test_rows_of_a_draft_before_mean_nothing_to_the_next(model):
    mtp, hidden = model.mtp, model.prefill(PROMPT, model.new_state(1024))
    clean, other = mtp.new_state(64), mtp.new_state(64)
    rows = [hidden[:2], hidden[2:3]]
    wanted = mtp.draft(rows, [5, 6, 7], clean, 3)
    broken = hidden[:7] * torch.nan
    mtp.draft([broken, hidden[:1]], [9] * 8, other, 1)
    other.truncate(0)
    assert mtp.draft(rows, [5, 6, 7], other, 3) == wanted
    for one, same in ((clean.kv.keys, other.kv.keys), (clean.kv.values, other.kv.values)):
        assert torch.equal(bits_of(one[:, :, :5]), bits_of(same[:, :, :5]))


def test_a_chain_that_fails_leaves_the_rows_that_it_did_not_read(model, monkeypatch):
    mtp, hidden = model.mtp, model.prefill(PROMPT, model.new_state(1024))

    def read() -> MtpRows:
        rows = MtpRows(mtp, 128)
        rows.follow(range(12), hidden[:12])
        return rows

    right, rows, run = read(), read(), mtp._run
    wanted = right.draft(5, 2)

    def fail(state, key, *arguments, **options):
        if key[0] == "draft":
            raise RuntimeError("the device was lost")
        run(state, key, *arguments, **options)

    monkeypatch.setattr(mtp, "_run", fail)
    with pytest.raises(RuntimeError):
        rows.draft(5, 2)
    monkeypatch.undo()
    assert rows.draft(5, 2) == wanted
    assert rows._state.length == right._state.length == 11
    one, same = (each._state.kv.keys[:, :, :11] for each in (rows, right))
    torch.testing.assert_close(one, same, rtol=2**-7, atol=2**-7)


def test_a_restored_state_forgets_what_was_pending(model):
    answer = Answer(model, RowsVerifier(model), SAMPLINGS["greedy"])
    answer.round(Draft.chain(()))
    start, ids = answer.state.snapshot(), list(answer.ids)
    answer.round(Draft.chain(()))
    answer.round(Draft.chain(()))
    wanted = answer.logits[-2:]
    answer.state.restore(start)
    answer.ids = ids
    answer.round(Draft.chain(()))
    answer.round(Draft.chain(()))
    assert all(map(torch.equal, answer.logits[-2:], wanted))


def refuse(launch):
    """Capture nothing, as a GPU may."""
    raise RuntimeError("operation not permitted when stream is capturing\nmore")


def test_a_refused_capture_is_told_once_and_costs_no_round(model, plain, monkeypatch):
    sampling, wanted = plain
    verifier = RowsVerifier(model)
    monkeypatch.setattr(verifier._graphs, "_captures", True)
    monkeypatch.setattr(verifier._graphs, "_capture", refuse)
    answer = Answer(model, verifier, sampling)
    for _ in range(3):
        answer.round(Draft.chain(()))
    told = [one.notice for one in answer.rounds]
    assert "refused to capture a round of 1 rows as a graph (operation not permitted" in told[0]
    assert told[1:] == ["", ""]
    assert answer.ids == wanted.ids[:4]


def test_a_refused_capture_of_proposals_is_told_with_the_next_round(model, monkeypatch):
    mtp = model.mtp
    hidden = model.prefill(PROMPT, model.new_state(1024))
    rows = mtp.new_state(1024)
    wanted = mtp.draft([hidden[-1:]], [5], rows, 3)
    monkeypatch.setattr(mtp._graphs, "_captures", True)
    monkeypatch.setattr(mtp._graphs, "_graphs", {})
    monkeypatch.setattr(mtp._graphs, "_capture", refuse)
    assert mtp.draft([hidden[-1:]], [5], rows, 3) == wanted
    answer = Answer(model, RowsVerifier(model), SAMPLINGS["greedy"])
    answer.round(Draft.chain(()))
    assert "refused to capture a call of the MTP head" in answer.rounds[0].notice


class Recorded:
    """A graph that launches what it captured."""

    def __init__(self, launch):
        self.launch, self.num_replays = launch, 0

    def replay(self):
        self.num_replays += 1
        self.launch()


def test_a_graph_serves_every_later_round_of_its_shape(model, plain, monkeypatch):
    sampling, wanted = plain
    verifier = RowsVerifier(model)
    monkeypatch.setattr(verifier._graphs, "_captures", True)
    monkeypatch.setattr(verifier._graphs, "_capture", Recorded)
    answer = Answer(model, verifier, sampling)
    while len(answer.ids) < 13:
        answer.round(Draft.chain(wanted.ids[len(answer.ids) :][: len(answer.rounds) % 3]))
    kept = verifier._graphs._graphs
    assert sorted(key[0].num_rows for key in kept) == [1, 2, 3]
    assert sum(one.num_replays for one in kept.values()) == len(answer.rounds) - 3
    assert answer.ids == wanted.ids[: len(answer.ids)]
    assert all(map(torch.equal, answer.logits, wanted.logits))
