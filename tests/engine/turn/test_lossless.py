"""Speculation changes speed and never text: ids and logits are plain decode's, bit for bit."""

import hashlib
import math
from dataclasses import replace
from functools import cache

import pytest
import torch

from engine.compute_path import HELD_FORMATS
from engine.draft.price_table import PriceTable
from engine.draft.prices import ROW_CLASSES, Prices
from engine.draft.routed import Routing
from engine.model.config import SHAPE_DEMO
from engine.model.footprint import round_bytes, weight_bytes
from engine.model.random import random_model
from engine.turn.traffic import WalkTraffic
from engine.types import Request, Sampling
from tests.fakes.model import local_engine, run, write_text_files

pytestmark = pytest.mark.usefixtures("one_thread")

NUM_TOKENS = 96
GREEDY = Sampling(temperature=0.0)
# what was said is likelier to be said again: a random model then gives lookup something to find
SEEDED = Sampling(temperature=0.8, top_k=40, top_p=0.95, presence_penalty=-2.0, seed=1234)
PROMPTS = (
    tuple(range(5, 16)),
    tuple(7 * one % 300 for one in range(70)),
    (299, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233),
)
CASES = [(prompt, sampling) for prompt in range(3) for sampling in (GREEDY, SEEDED)]
IDS = [f"prompt{prompt}-{'greedy' if one is GREEDY else 'seeded'}" for prompt, one in CASES]

DRAFTING = [
    ("mtp", "chain"),
    *(
        (drafter, shape)
        for drafter in ("lookup", "wrong", "half", "replay")
        for shape in ("chain", "tree")
    ),
]


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    model = random_model(SHAPE_DEMO, HELD_FORMATS, device="cpu", seed=3)
    folder = write_text_files(tmp_path_factory.mktemp("text"))
    traffic = WalkTraffic(model.config, model.weights.part_bytes)
    engine = local_engine(model, folder, traffic=traffic, stop_ids=frozenset())
    yield engine
    engine.close()


@pytest.fixture(scope="module")
def plain(engine):
    @cache
    def of(prompt: int, sampling: Sampling):
        return answer(engine, prompt, sampling, drafter="off")

    return of


def answer(engine, prompt: int, sampling: Sampling, **options):
    request = Request(
        prompt_ids=PROMPTS[prompt], sampling=sampling, max_tokens=NUM_TOKENS, keep_logits=True,
        **options,
    )  # fmt: skip
    return run(engine, request)[-1].record


def digest(record) -> str:
    return hashlib.sha256(record.logits.numpy().tobytes()).hexdigest()


@pytest.fixture(scope="module")
def drafted(engine, plain):
    @cache
    def of(prompt: int, sampling: Sampling, drafter: str, shape: str):
        replay_ids = plain(prompt, sampling).token_ids
        return answer(
            engine, prompt, sampling, drafter=drafter, draft_shape=shape, replay_ids=replay_ids
        )

    return of


@pytest.mark.parametrize(("drafter", "shape"), DRAFTING)
@pytest.mark.parametrize(("prompt", "sampling"), CASES, ids=IDS)
def test_drafting_changes_no_bit(plain, drafted, prompt, sampling, drafter, shape):
    wanted = plain(prompt, sampling)
    got = drafted(prompt, sampling, drafter, shape)
    assert (got.error, len(got.token_ids)) == ("", NUM_TOKENS)
    assert got.token_ids == wanted.token_ids
    assert digest(got) == digest(wanted)
    rounds = got.rounds
    assert {one.drafter for one in rounds} == {drafter}
    accepted, tested = (
        sum(getattr(one, name) for one in rounds) for name in ("accepted", "tested")
    )
    assert sum(len(one.token_ids) for one in rounds) == NUM_TOKENS - 1 == accepted + len(rounds)
    if drafter in ("mtp", "lookup"):
        assert shape == "tree" or {one.shape for one in rounds} == {"chain"}
        return
    # one proposal has no room for a sibling
    assert {one.shape for one in rounds if one.rows > 2} == {shape}
    in_a_round = 3 if shape == "chain" else 2
    if drafter == "wrong":
        assert (accepted, tested) == (0, NUM_TOKENS - 2)
    if drafter == "replay":
        assert accepted == tested
        assert len(rounds) == math.ceil((NUM_TOKENS - 1) / (in_a_round + 1))
    if drafter == "half":
        assert [one.accepted for one in rounds[:4]] == [in_a_round, 0, in_a_round, 0]


@pytest.fixture(scope="module")
def routed(engine):
    """The same engine, its rounds routed as if rows were nearly free and never timed."""
    table = PriceTable("bf16", (1, 32), (1024,), ((10.0, 20.0),), (1, 2), (0.1, 0.2))
    routing = Routing(Prices(table, learns=False), max_steps=7)
    machine = engine._machine

    @cache
    def of(prompt: int, sampling: Sampling, shape: str):
        engine._machine = replace(machine, routing=routing)
        try:
            return answer(engine, prompt, sampling, drafter="auto", draft_shape=shape)
        finally:
            engine._machine = machine

    return of


@pytest.mark.parametrize("shape", ["auto", "chain"])
@pytest.mark.parametrize(("prompt", "sampling"), CASES, ids=IDS)
def test_routing_changes_no_bit(plain, routed, prompt, sampling, shape):
    wanted, got = plain(prompt, sampling), routed(prompt, sampling, shape)
    assert (got.error, len(got.token_ids)) == ("", NUM_TOKENS)
    assert got.token_ids == wanted.token_ids
    assert digest(got) == digest(wanted)
    assert {one.rows for one in got.rounds} <= set(ROW_CLASSES)
    assert shape == "auto" or {one.shape for one in got.rounds} == {"chain"}


def test_rounds_were_routed(routed):
    """What the cases above held: drafts of both and of each, trees, copies, and plain rounds."""
    rounds = [one for case in CASES for one in routed(*case, "auto").rounds]
    assert {one.drafter for one in rounds} == {"mtp", "lookup", "mtp+lookup", "off"}
    assert {one.shape for one in rounds} == {"chain", "tree"}
    for shape in ("chain", "tree"):
        copied = [one for one in rounds if (one.drafter, one.shape) == ("lookup", shape)]
        assert sum(one.accepted for one in copied) > 0
    assert all((one.rows == 1) == (one.drafter == "off") for one in rounds)


def test_lookup_copied_and_branched(drafted):
    """What the cases above found for lookup: copies that were right, and trees among them."""
    for shape in ("chain", "tree"):
        records = [drafted(*case, "lookup", shape) for case in CASES]
        assert all(sum(one.accepted for one in record.rounds) > 0 for record in records)
    rounds = [one for record in records for one in record.rounds if one.shape == "tree"]
    assert len(rounds) > 3
    assert sum(one.accepted for one in rounds) > 3


def test_greedy_and_seeded_differ(plain):
    assert plain(0, GREEDY).token_ids != plain(0, SEEDED).token_ids


def test_a_turn_repeats_itself_after_another_conversation(engine, plain):
    wanted = plain(1, SEEDED)
    answer(engine, 2, GREEDY, drafter="mtp")
    again = answer(engine, 1, SEEDED, drafter="mtp")
    assert (again.token_ids, digest(again)) == (wanted.token_ids, digest(wanted))


def test_a_regenerated_answer_has_the_same_bits(engine, plain):
    wanted = plain(0, GREEDY)
    answer(engine, 0, SEEDED, drafter="mtp")
    again = answer(engine, 0, GREEDY, drafter="mtp")
    assert again.reused_tokens == len(PROMPTS[0])
    assert (again.token_ids, digest(again)) == (wanted.token_ids, digest(wanted))


def test_a_prompt_that_goes_on_is_as_if_read_in_its_recorded_ranges(engine, plain):
    """The ranges of a record are enough to repeat the state exactly."""
    first = plain(2, GREEDY)
    answer(engine, 2, GREEDY, drafter="mtp")
    longer = (*PROMPTS[2], *first.token_ids, 9, 8, 7)
    request = Request(prompt_ids=longer, sampling=GREEDY, max_tokens=8, keep_logits=True)
    record = run(engine, request)[-1].record
    assert record.reused_tokens == len(longer) - 4
    model, ids = engine._machine.model, (*longer, *record.token_ids)
    state = model.new_state(4096)
    for one in record.ranges:
        part = ids[one.start : one.end]
        if one.how == "prefill":
            hidden = model.prefill(part, state, chunk_tokens=one.chunk_tokens)[-1:]
        else:
            for token_id in part:
                hidden = model.step(token_id, state)
    assert torch.equal(model.logits(hidden)[0], record.logits[-1])


def test_rounds_count_the_bytes_of_the_rows_they_walked(plain):
    rounds = plain(0, GREEDY).rounds
    for one in (rounds[0], rounds[-1]):
        assert one.num_bytes == round_bytes(SHAPE_DEMO, HELD_FORMATS, one.context_tokens)
        assert one.gb_s > 0


def test_a_walk_reads_the_weights_for_every_row():
    walked = WalkTraffic(SHAPE_DEMO, weight_bytes(SHAPE_DEMO, HELD_FORMATS))(100, 4, 3, 2)
    rows = [round_bytes(SHAPE_DEMO, HELD_FORMATS, 100 + row) for row in range(3)]
    drafter = round_bytes(SHAPE_DEMO, HELD_FORMATS, 100, num_drafted=2)["drafter"]
    summed = {part: sum(row[part] for row in rows) for part in rows[0]}
    assert walked == {**summed, "drafter": drafter}
