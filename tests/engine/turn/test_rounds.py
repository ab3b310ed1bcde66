"""A round is on its way before the one before it is told, and one that nobody wants leaves nothing.

The model is small and real, on the path of a GPU: here by the kernels' references, where a launch
computes at once, and on a GPU by captured graphs.
"""

import itertools
import threading
from dataclasses import replace

import pytest
import torch

from engine.draft.draft import Draft
from engine.draft.lookup import LookupDrafter
from engine.draft.price_table import PriceTable
from engine.draft.prices import Prices
from engine.draft.routed import RoutedDrafter, Routing
from engine.draft.scripted import ScriptedDrafter
from engine.model.round_state import RoundState
from engine.records import PHASES
from engine.turn.choice import TokenChooser
from engine.turn.rounds import Rounds
from engine.turn.rows_round import RowsRound
from engine.turn.rows_verify import RowsVerifier
from engine.turn.verify import Course, RowWalk
from engine.types import Request, RoundEnded, Sampling, TextArrived
from tests.fakes.model import local_engine, run, write_text_files
from tests.fakes.rounds import assert_equal, settled, small_model

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
PROMPT = tuple(range(40, 60))
# ids that are printable bytes: each is text at once
PRINTABLE = tuple((one, 1e3) for one in range(33, 94))
SAMPLINGS = {
    "greedy": Sampling(temperature=0.0, logit_bias=PRINTABLE),
    "penalised": Sampling(
        temperature=0.9, presence_penalty=0.7, repetition_penalty=1.1, seed=6, logit_bias=PRINTABLE
    ),
}


@pytest.fixture(scope="module", params=DEVICES)
def model(request):
    return small_model(request.param)


@pytest.fixture(scope="module")
def verifier(model):
    """One for all: on a GPU its graphs are captured once."""
    return RowsVerifier(model)


@pytest.fixture(scope="module")
def open_engine(model, verifier, tmp_path_factory):
    folder = write_text_files(tmp_path_factory.mktemp("text"))

    def opened(by=verifier):
        return local_engine(model, folder, verifier=by, max_context_tokens=512)

    return opened


def requested(**options) -> Request:
    options = {"sampling": SAMPLINGS["greedy"], "max_tokens": 16, "drafter": "off", **options}
    return Request(prompt_ids=PROMPT, keep_logits=True, **options)


class Text:
    """Rounds by hand: what they committed, and the state behind them."""

    def __init__(self, model, verifier, sampling):
        self.state = model.new_state(512)
        model.prefill(PROMPT, self.state)
        self.chooser = TokenChooser(sampling, model.config.vocab_size, PROMPT)
        course = Course(self.state, self.chooser, keeps_logits=True)
        self.rounds = Rounds(verifier, course, model.device)
        self.ids, self.logits, self.taken = [50], [], []

    def launch(self, draft: Draft, room: int = 99) -> None:
        self.rounds.launch(self.ids[-1], lambda: draft, room)

    def take(self) -> None:
        def commit(token_id):
            self.chooser.note(token_id)
            self.ids.append(token_id)
            return True

        self.taken.append(self.rounds.take(commit))
        self.logits += self.taken[-1].verified.logits


PLAIN = Draft.chain(())


@pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=SAMPLINGS)
def test_rounds_that_run_ahead_are_plain_decode(model, verifier, sampling):
    ahead, plain = Text(model, verifier, sampling), Text(model, RowWalk(model), sampling)
    ahead.launch(PLAIN)
    for _ in range(12):
        ahead.rounds.launch_ahead()
        ahead.take()
        assert ahead.rounds.are_under_way
        plain.launch(PLAIN)
        plain.take()
    ahead.rounds.drop()
    assert ahead.ids == plain.ids
    assert len(set(ahead.ids)) > 1
    assert_equal(ahead.logits, plain.logits)
    hidden = [[one.verified.hidden for one in text.taken] for text in (ahead, plain)]
    assert_equal(*hidden)
    assert_equal(settled(ahead.state), settled(plain.state))


@pytest.mark.parametrize("draft", [PLAIN, Draft.chain([60, 61, 62]), Draft.tree([60, 61], [0, 0])])
@pytest.mark.parametrize("is_ahead", [True, False], ids=["ahead", "behind"])
def test_a_dropped_round_leaves_nothing(model, verifier, draft, is_ahead):
    """Whether it was launched behind one that was known, or behind one on its way."""
    texts = [Text(model, verifier, SAMPLINGS["penalised"]) for _ in range(2)]
    for text, drops in zip(texts, (True, False), strict=True):
        for _ in range(3):
            text.launch(PLAIN)
            if is_ahead and drops:
                text.rounds.launch_ahead()
            text.take()
            if not is_ahead and drops:
                text.launch(draft)
            text.rounds.drop()
    dropped, plain = texts
    assert dropped.ids == plain.ids
    assert_equal(dropped.logits, plain.logits)
    assert_equal(settled(dropped.state), settled(plain.state))


def test_a_point_behind_a_dropped_round_is_a_point_to_come_back_to(model, verifier):
    text = Text(model, verifier, SAMPLINGS["greedy"])
    for _ in range(2):  # a graph is captured by the first, which has nothing pending
        text.launch(PLAIN)
        text.take()
        text.launch(Draft.chain([60, 61]))
        text.rounds.drop()
    start, ids = text.state.snapshot(), list(text.ids)
    found = []
    for _ in range(2):
        text.ids, text.logits = list(ids), []
        for _ in range(3):
            text.launch(PLAIN)
            text.take()
        found.append((text.ids, text.logits))
        text.state.restore(start)
    (once, first), (again, second) = found
    assert once == again
    assert_equal(first, second)


def test_a_dropped_round_that_is_counted_is_seen(model, verifier, monkeypatch):
    """What the tests above hold would not hold if a dropped round's row stayed."""
    monkeypatch.setattr(RoundState, "drop", lambda state: state.accept((0,)))
    with pytest.raises(AssertionError):
        test_a_dropped_round_leaves_nothing(model, verifier, PLAIN, is_ahead=True)


def test_tails_that_stay_in_one_half_are_seen(model, verifier, monkeypatch):
    monkeypatch.setattr(RoundState, "drop", lambda state: state.accept(()))
    with pytest.raises(AssertionError):
        test_a_point_behind_a_dropped_round_is_a_point_to_come_back_to(model, verifier)


def test_no_round_runs_ahead_of_a_token_that_must_be_known(model, verifier):
    text = Text(model, verifier, SAMPLINGS["greedy"])
    for draft, room in ((Draft.chain([60]), 99), (PLAIN, 1)):
        text.launch(draft, room)
        text.rounds.launch_ahead()
        text.take()
        assert not text.rounds.are_under_way


class Watched(RowsVerifier):
    """Notes when rounds are launched."""

    def __init__(self, model):
        super().__init__(model)
        self.log = []

    def _run(self, *others, **how):
        self.log.append("launched")
        return super()._run(*others, **how)


@pytest.mark.parametrize("drafter", ["off", "wrong"])
def test_the_next_round_is_on_its_way_before_anything_is_told(model, open_engine, drafter):
    """However slow the reader of the events is."""
    verifier = Watched(model)
    log = verifier.log
    truth = (1,) * 16  # never chosen
    request = requested(drafter=drafter, replay_ids=truth, num_draft_tokens=2)
    for event in open_engine(verifier).generate(request, threading.Event()):
        if isinstance(event, TextArrived | RoundEnded):
            log.append(type(event).__name__)
    told = [at for at, one in enumerate(log) if one == "RoundEnded"]
    assert len(told) == log.count("launched") == 15
    launched_before = [log[:at].count("launched") for at in told]
    assert launched_before == [*range(2, 16), 15]
    text_of_first = log.index("TextArrived", 1 + log.index("launched"))
    assert log[:text_of_first].count("launched") == 2


@pytest.mark.parametrize("ends", ["cancel", "close"])
@pytest.mark.parametrize("drafter", ["off", "replay"])
def test_a_turn_that_is_left_while_a_round_runs_is_as_if_it_had_not(
    open_engine, monkeypatch, drafter, ends
):
    whole = run(open_engine(), requested())[-1].record
    dropped = []
    drop = RowsRound.drop
    monkeypatch.setattr(RowsRound, "drop", lambda one: (dropped.append(one), drop(one)))
    engine, stop = open_engine(), threading.Event()
    request = requested(drafter=drafter, replay_ids=whole.token_ids, num_draft_tokens=3)
    events = engine.generate(request, stop)
    num_rounds = 0
    for event in events:
        num_rounds += isinstance(event, RoundEnded)
        if num_rounds == 2:
            if ends == "close":
                events.close()
                break
            stop.set()
    assert (len(dropped), num_rounds) == (1, 2)
    memory = engine._memory
    num_tokens = 1 + (2 if drafter == "off" else 8)
    assert memory.ids == [*PROMPT, *whole.token_ids[: num_tokens - 1]]
    assert memory.ranges[-1].end == memory.state.length == len(memory.ids)

    other = open_engine()
    run(other, requested(max_tokens=num_tokens))
    assert_equal(settled(memory.state), settled(other._memory.state))
    more = Request(
        prompt_ids=(*PROMPT, *whole.token_ids[:num_tokens], 41), max_tokens=6, keep_logits=True,
        sampling=SAMPLINGS["greedy"], drafter=drafter, exact_resume=False,
    )  # fmt: skip
    goes_on, wanted = (run(one, more)[-1].record for one in (engine, other))
    assert goes_on.token_ids == wanted.token_ids
    assert torch.equal(goes_on.logits, wanted.logits)


def test_a_stop_string_ends_the_turn_while_the_next_round_runs(open_engine, monkeypatch):
    whole = run(open_engine(), requested())[-1].record
    stop = whole.text[5:8]
    at = whole.text.index(stop) + len(stop)
    dropped = []
    drop = RowsRound.drop
    monkeypatch.setattr(RowsRound, "drop", lambda one: (dropped.append(one), drop(one)))
    engine, other = open_engine(), open_engine(None)
    record = run(engine, requested(stop=(stop,)))[-1].record
    assert (record.finish_reason, record.text) == ("stop_string", whole.text[: at - len(stop)])
    assert len(dropped) == 1
    run(other, requested(stop=(stop,)))
    assert record.token_ids == whole.token_ids[:at]
    assert_equal(settled(engine._memory.state), settled(other._memory.state))


@pytest.fixture(scope="module")
def walked(open_engine):
    """An answer without drafts, row by row."""
    sampling = replace(SAMPLINGS["penalised"], presence_penalty=-2.0, logit_bias=())
    return run(open_engine(None), requested(sampling=sampling, max_tokens=32))[-1].record, sampling


def answered_alike(open_engine, walked, drafter, shape):
    """An answer with drafts, which is to the bit that without."""
    wanted, sampling = walked
    request = requested(
        sampling=sampling, max_tokens=32, drafter=drafter, draft_shape=shape, num_draft_tokens=6,
        replay_ids=wanted.token_ids,
    )  # fmt: skip
    got = run(open_engine(), request)[-1].record
    assert (got.token_ids, got.ranges) == (wanted.token_ids, wanted.ranges)
    assert torch.equal(got.logits, wanted.logits)
    return got


@pytest.mark.parametrize("shape", ["chain", "tree"])
@pytest.mark.parametrize("drafter", ["off", "mtp", "lookup", "half", "replay"])
def test_no_drafter_changes_a_bit(open_engine, walked, drafter, shape):
    answered_alike(open_engine, walked, drafter, shape)


DEAR_ROWS = PriceTable("bf16", (1, 32), (1024,), ((10.0, 320.0),), (1, 2), (1.0, 2.0))
CHEAP_ROWS = PriceTable("bf16", (1, 32), (1024,), ((10.0, 10.5),), (1, 2), (0.1, 0.2))


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
    repeated = Sampling(temperature=0.0, logit_bias=tuple((one, 1e3 * one) for one in (40, 41)))
    run(engine, requested(sampling=repeated, max_tokens=64, drafter="auto"))
    assert told == waited[1:]  # the first one pays for the prompt
    assert {one[3] for one in told} == {True, False}


@pytest.mark.parametrize("drafter", ["off", "replay"])
@pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=SAMPLINGS)
def test_a_forced_token_ends_what_ran_ahead(open_engine, drafter, sampling):
    """The device chose another one in its place."""
    records = []
    for engine in (open_engine(None), open_engine()):
        tokenizer = engine._machine.tokenizer
        request = replace(
            requested(drafter="off" if not records else drafter, sampling=sampling),
            prompt_ids=(*PROMPT, tokenizer.think_open_id), thinking_budget=4, num_draft_tokens=6,
            replay_ids=records[0].token_ids if records else (),
        )  # fmt: skip
        records.append(run(engine, request)[-1].record)
    walked, record = records
    assert tokenizer.think_close_id in walked.token_ids[4:]
    assert record.token_ids == walked.token_ids
    assert torch.equal(record.logits, walked.logits)
    assert (record.text, record.reasoning) == (walked.text, walked.reasoning)


def test_what_a_round_brought_is_told_when_the_next_cannot_be_launched(open_engine, monkeypatch):
    launch, launched = RowsVerifier.launch, []

    def failing(*arguments):
        launched.append(arguments)
        if len(launched) == 3:
            raise RuntimeError("the device was lost")
        return launch(*arguments)

    monkeypatch.setattr(RowsVerifier, "launch", failing)
    engine = open_engine()
    request = requested(drafter="wrong", replay_ids=(1,) * 16, num_draft_tokens=2)
    record = run(engine, request)[-1].record
    assert (record.error, record.finish_reason) == (
        "The engine failed: the device was lost", "error",
    )  # fmt: skip
    assert len(record.token_ids) == 1 + len(record.rounds) == 3
    assert len(record.text) == 3
    monkeypatch.undo()
    assert run(engine, requested())[-1].record.finish_reason == "length"


@pytest.mark.parametrize("drafter", ["off", "wrong"])
def test_rounds_lie_end_to_end_and_their_phases_add_up(open_engine, drafter):
    request = requested(drafter=drafter, replay_ids=(1,) * 16, num_draft_tokens=2)
    record = run(open_engine(), request)[-1].record
    rounds = record.rounds
    assert len(rounds) == 15
    for one, following in itertools.pairwise(rounds):
        assert set(one.ms) == set(PHASES)
        assert all(ms >= 0 for ms in one.ms.values())
        assert following.start_s == pytest.approx(one.start_s + one.round_ms / 1e3)
    last_s = rounds[-1].start_s + rounds[-1].round_ms / 1e3
    assert record.ttft_s <= rounds[0].start_s < last_s <= record.total_s


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
    repeated = Sampling(temperature=0.0, logit_bias=tuple((one, 1e3 * one) for one in (40, 41)))
    records = []
    for name in ("off", drafter):
        engine = local_engine(
            model, write_text_files(tmp_path / name), verifier=RowsVerifier(model),
            max_context_tokens=512, routing=routing,
        )  # fmt: skip
        request = requested(sampling=repeated, max_tokens=64, drafter=name, num_draft_tokens=5)
        records.append(run(engine, request)[-1].record)
    plain, got = records
    assert got.token_ids == plain.token_ids
    assert torch.equal(got.logits, plain.logits)
    assert sum(readied) > 3
