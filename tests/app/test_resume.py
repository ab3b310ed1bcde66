"""A conversation that goes on in another process has the bits of one that never stopped."""

import threading
from dataclasses import replace

import pytest
import torch

from app.sessions.store import SessionStore
from engine.model.config import SHAPE_DEMO, hybrid_layers
from engine.model.packing import Launching, Packer
from engine.model.random import random_model
from engine.profile import Formats
from engine.records import RangeRecord
from engine.turn.prefill import agrees
from engine.turn.rows_verify import RowsVerifier
from engine.turn.verify import RowWalk
from engine.types import NoticeRaised, Request, Sampling
from tests.fakes.model import local_engine, run, write_text_files

SMALL = replace(SHAPE_DEMO, layer_kinds=hybrid_layers(4), vocab_size=320)
QUESTIONS = ("what is a glacier?", "a river of ice? hello there!", "the end of the ice")
SAMPLINGS = {"greedy": Sampling(temperature=0.0), "seeded": Sampling(temperature=0.9, seed=3)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_text_files(tmp_path_factory.mktemp("text"))


@pytest.fixture(scope="module", params=["reference", "kernels"])
def model(request):
    formats = Formats(*("bf16",) * 5)
    packer = Packer(Launching((9, 0))) if request.param == "kernels" else None
    return random_model(SMALL, formats, device="cpu", seed=4, packer=packer)


class Talk:
    """A conversation that is kept in a session, as the chat keeps it."""

    def __init__(self, model, folder, session):
        verifier = RowWalk(model) if type(model).__name__ == "Model" else RowsVerifier(model)
        self.engine = local_engine(model, folder, verifier=verifier, max_context_tokens=1024)
        self.session = session

    def ask(self, text, **options):
        self.session.add_message("user", text)
        return self.answer(**options)

    def answer(self, **options):
        request = Request(messages=self.session.request_messages(), **options)
        writer = self.session.start_answer()
        events = run(self.engine, request)
        writer.finish(events[-1].record)
        return events[-1].record, [one.text for one in events if isinstance(one, NoticeRaised)]


def reopened(session, data_dir):
    """The session as another process reads it."""
    session.close()
    return SessionStore(data_dir).open(session.id)


@pytest.mark.parametrize("name", SAMPLINGS)
@pytest.mark.parametrize("drafter", ["off", "mtp"])
def test_a_resumed_conversation_has_the_bits_of_an_uninterrupted_one(
    model, folder, tmp_path, name, drafter
):
    options = {
        "sampling": SAMPLINGS[name], "max_tokens": 9, "keep_logits": True, "drafter": drafter,
    }  # fmt: skip
    store = SessionStore(tmp_path)
    whole = Talk(model, folder, store.create("fake", "demo", ""))
    broken = Talk(model, folder, store.create("fake", "demo", ""))
    for question in QUESTIONS[:2]:
        whole.ask(question, **options)
        broken.ask(question, **options)
    wanted, _ = whole.ask(QUESTIONS[2], **options)

    resumed = Talk(model, folder, reopened(broken.session, tmp_path))
    got, notices = resumed.ask(QUESTIONS[2], **options)
    assert got.prompt_ids == wanted.prompt_ids
    assert got.token_ids == wanted.token_ids
    assert torch.equal(got.logits, wanted.logits)
    assert got.ranges == wanted.ranges
    assert (got.reused_tokens, got.reread_tokens) == (0, wanted.reused_tokens)
    assert ["read again exactly as it was computed" in one for one in notices] == [True]
    assert (
        torch.equal(resumed.engine._memory.state.recurrent, whole.engine._memory.state.recurrent)
        or type(model).__name__ != "Model"
    )  # rounds leave rows pending


@pytest.mark.parametrize("drafter", ["off", "mtp"])
def test_one_that_is_read_ahead_has_the_same_bits(model, folder, tmp_path, drafter):
    options = {"sampling": SAMPLINGS["greedy"], "max_tokens": 9, "keep_logits": True}
    options["drafter"] = drafter
    store = SessionStore(tmp_path)
    whole, broken = (Talk(model, folder, store.create("fake", "demo", "")) for _ in range(2))
    for question in QUESTIONS[:2]:
        whole.ask(question, **options)
        broken.ask(question, **options)
    wanted, _ = whole.ask(QUESTIONS[2], **options)
    resumed = Talk(model, folder, reopened(broken.session, tmp_path))
    before = Request(messages=resumed.session.request_messages())
    told, *_, last = resumed.engine.read_ahead(before, threading.Event())
    assert "exactly as it was computed" in told.text
    got, notices = resumed.ask(QUESTIONS[2], **options)
    assert notices == []
    assert got.reused_tokens == last.num_total == wanted.reused_tokens
    assert (got.token_ids, got.ranges) == (wanted.token_ids, wanted.ranges)
    assert torch.equal(got.logits, wanted.logits)


def test_a_fast_resume_reads_everything_as_a_prompt(model, folder, tmp_path):
    options = {"sampling": SAMPLINGS["greedy"], "max_tokens": 8, "drafter": "off"}
    first = Talk(model, folder, SessionStore(tmp_path).create("fake", "demo", ""))
    first.ask(QUESTIONS[0], **options)
    resumed = Talk(model, folder, reopened(first.session, tmp_path))
    record, _ = resumed.ask(QUESTIONS[1], exact_resume=False, **options)
    assert [one.how for one in record.ranges] == ["prefill", "decode"]


@pytest.mark.parametrize(
    "other", [{"arithmetic": "another chip"}, {"profile": "demo-fp8"}], ids=str
)
def test_a_conversation_of_other_bits_is_read_in_the_usual_way_and_told(
    model, folder, tmp_path, other
):
    options = {"sampling": SAMPLINGS["greedy"], "max_tokens": 8, "drafter": "off"}
    first = Talk(model, folder, SessionStore(tmp_path).create("fake", "demo", ""))
    first.ask(QUESTIONS[0], **options)
    resumed = Talk(model, folder, reopened(first.session, tmp_path))
    resumed.engine._info = replace(resumed.engine.info, **other)
    record, notices = resumed.ask(QUESTIONS[1], **options)
    assert [one.how for one in record.ranges] == ["prefill", "decode"]
    assert ["with another arithmetic or other weights" in one for one in notices] == [True]


@pytest.mark.parametrize("damage", ["an id of a larger vocabulary", "a chunk that nobody reads"])
def test_a_record_that_this_model_cannot_repeat_is_left_alone(model, folder, tmp_path, damage):
    options = {"sampling": SAMPLINGS["greedy"], "max_tokens": 8, "drafter": "off"}
    first = Talk(model, folder, SessionStore(tmp_path).create("fake", "demo", ""))
    first.ask(QUESTIONS[0], **options)
    resumed = Talk(model, folder, reopened(first.session, tmp_path))
    answer = resumed.session.path_messages()[-1]
    if damage.startswith("an id"):
        ids = (*answer.record.prompt_ids[:-1], model.config.vocab_size)
        record = replace(answer.record, prompt_ids=ids)
    else:
        begun, *more = answer.record.ranges
        record = replace(answer.record, ranges=(replace(begun, chunk_tokens=65), *more))
    resumed.session._contents.messages[answer.id] = replace(answer, record=record)
    record, _ = resumed.ask(QUESTIONS[1], **options)
    assert [one.how for one in record.ranges] == ["prefill", "decode"]
    assert max(record.prompt_ids) < model.config.vocab_size


def test_another_try_after_a_resume_reads_nothing_again(model, folder, tmp_path):
    options = {"sampling": SAMPLINGS["greedy"], "max_tokens": 8, "drafter": "off"}
    first = Talk(model, folder, SessionStore(tmp_path).create("fake", "demo", ""))
    for question in QUESTIONS[:2]:
        first.ask(question, **options)
    resumed = Talk(model, folder, reopened(first.session, tmp_path))
    edited, _ = resumed.ask("hello", **options)
    resumed.session.select(resumed.session.path_messages()[-2].id)
    again, notices = resumed.answer(**options)
    assert edited.reread_tokens > 0
    assert (again.token_ids, again.reread_tokens, notices) == (edited.token_ids, 0, [])


def ranges(*rows):
    return [RangeRecord(*one) for one in rows]


def test_what_is_held_goes_on_from_where_a_recorded_piece_may_be_cut():
    recorded = ranges((0, 600, "prefill", 256), (600, 640, "decode", 0))
    assert agrees(recorded, [])
    assert agrees(recorded, ranges((0, 512, "prefill", 256)))
    assert agrees(recorded, ranges((0, 600, "prefill", 256), (600, 611, "decode", 0)))
    assert not agrees(recorded, ranges((0, 500, "prefill", 256)))
    assert not agrees(recorded, ranges((0, 512, "prefill", 128)))
    assert not agrees(recorded, ranges((0, 590, "prefill", 256), (590, 611, "decode", 0)))
    assert not agrees(recorded, ranges((0, 650, "prefill", 256)))
