"""A turn ends for its reasons, tells what it did, and leaves the engine usable."""

import math
import threading
from dataclasses import replace

import pytest
import torch

from engine.errors import RequestError
from engine.records import PHASES
from engine.turn.verify import Walk
from engine.types import NoticeRaised, PromptProgressed, Request, RoundEnded, TextArrived
from tests.engine.turn.asked import GREEDY, PROMPT, ask, counting, rounds_of
from tests.fakes.model import FakeModel, local_engine, run


def test_what_a_round_has_to_say_is_raised(folder, monkeypatch):
    wait = Walk.wait

    def noticed(self, commit):
        notice = "slower from here" if self.token_id == 51 else ""
        return replace(wait(self, commit), notice=notice)

    monkeypatch.setattr(Walk, "wait", noticed)
    events, record = ask(local_engine(FakeModel(counting), folder), max_tokens=5)
    assert [one.text for one in events if isinstance(one, NoticeRaised)] == ["slower from here"]
    assert len(record.rounds) == 4


def test_a_turn_tells_what_it_did(folder):
    engine = local_engine(FakeModel(counting), folder)
    events, record = ask(engine, max_tokens=5)
    assert record.token_ids == (50, 51, 52, 53, 54)
    assert (record.finish_reason, record.prompt_tokens, record.reused_tokens) == ("length", 10, 0)
    assert record.text == "".join(one.text for one in events if isinstance(one, TextArrived))
    rounds = rounds_of(events)
    assert tuple(rounds) == record.rounds
    assert [one.token_ids for one in rounds] == [(51,), (52,), (53,), (54,)]
    for index, one in enumerate(rounds):
        assert (one.index, one.rows, one.tested, one.accepted) == (index, 1, 0, 0)
        assert one.context_tokens == 10 + index
        assert set(one.ms) == set(PHASES)
        assert all(ms >= 0 for ms in one.ms.values())
        assert one.num_bytes["weights"] == 1000
    assert [one.start_s for one in rounds] == sorted(one.start_s for one in rounds)
    assert 0 < record.ttft_s <= record.total_s
    assert record.prefill_tok_s > 0
    assert record.decode_tok_s > 0
    assert [(one.start, one.end, one.how) for one in record.ranges] == [
        (0, 10, "prefill"), (10, 14, "decode"),
    ]  # fmt: skip
    record.as_json()


def test_phases_add_up_to_less_than_the_turn(folder):
    engine = local_engine(FakeModel(counting), folder)
    _, record = ask(engine, max_tokens=30)
    assert sum(one.round_ms for one in record.rounds) <= record.total_s * 1e3


def test_the_prompt_is_read_in_chunks_with_progress(folder):
    engine = local_engine(FakeModel(counting), folder)
    prompt = tuple(range(40, 100)) * 10
    events, record = ask(engine, prompt_ids=prompt, max_tokens=1)
    progress = [one for one in events if isinstance(one, PromptProgressed)]
    assert [(one.num_tokens, one.num_total) for one in progress] == [
        (256, 600), (512, 600), (600, 600),
    ]  # fmt: skip
    assert [(one.end, one.chunk_tokens) for one in record.ranges] == [(600, 256)]


def test_a_chunk_is_timed_when_the_device_is_done_with_it(folder, monkeypatch):
    waited = []
    monkeypatch.setattr("engine.turn.prefill.wait_for", waited.append)
    engine = local_engine(FakeModel(lambda context: 65), folder)
    ids = tuple(range(1, 31)) * 10
    events = run(engine, Request(prompt_ids=ids, max_tokens=1))
    assert len(waited) == sum(isinstance(one, PromptProgressed) for one in events) == 2


def test_a_stop_id_ends_the_turn(folder):
    engine = local_engine(FakeModel(lambda c: 301 if len(c) > 13 else counting(c)), folder)
    stop_id = engine._machine.tokenizer.control_ids["<|im_end|>"]
    engine._machine.model.follow = lambda c: stop_id if len(c) > 13 else counting(c)
    _, record = ask(engine, max_tokens=50)
    assert (record.finish_reason, record.token_ids[-1]) == ("stop", stop_id)
    assert "<" not in record.text


@pytest.mark.parametrize("drafter", ["off", "replay", "half", "wrong"])
def test_a_stop_string_across_tokens_ends_the_turn(folder, drafter):
    engine = local_engine(FakeModel(counting), folder)
    _, whole = ask(engine, max_tokens=20)
    stop = whole.text[4:7]
    events, record = ask(engine, max_tokens=20, stop=("no such", stop), drafter=drafter)
    assert record.finish_reason == "stop_string"
    assert record.text == whole.text[:4]
    assert record.token_ids == whole.token_ids[:7]
    assert stop[0] not in "".join(one.text for one in events if isinstance(one, TextArrived))
    memory = engine._memory
    assert memory.ids == [*PROMPT, *record.token_ids[:-1]]
    assert memory.state.ids == tuple(memory.ids)


def test_text_that_never_became_a_stop_string_is_given_out_at_the_end(folder):
    engine = local_engine(FakeModel(counting), folder)
    _, whole = ask(engine, max_tokens=6)
    _, record = ask(engine, max_tokens=6, stop=(whole.text[-2:] + "?",))
    assert (record.text, record.finish_reason) == (whole.text, "length")


@pytest.mark.parametrize("drafter", ["off", "lookup", "replay"])
def test_a_full_context_ends_the_turn(folder, drafter):
    engine = local_engine(FakeModel(counting), folder, max_context_tokens=20)
    _, record = ask(engine, max_tokens=50, drafter=drafter)
    assert (record.finish_reason, len(record.token_ids)) == ("context_full", 10)


@pytest.mark.parametrize(("most", "choice"), [(20, "up to 40"), (40, "edit it.")])
def test_a_full_context_says_what_can_be_done(folder, most, choice):
    model = FakeModel(counting)
    model.config.max_position_embeddings = 40
    events, record = ask(local_engine(model, folder, max_context_tokens=most), max_tokens=50)
    told = [one.text for one in events if isinstance(one, NoticeRaised)]
    assert record.finish_reason == "context_full"
    assert f"The context of {most} tokens is full" in told[0]
    assert "Begin a new conversation" in told[0]
    assert choice in told[0]
    assert len(told) == 1


def test_what_was_captured_in_mid_answer_is_told_once_at_its_end(folder, monkeypatch):
    said = ["2 shapes came for the first time.", ""]
    monkeypatch.setattr(FakeModel, "take_captured", lambda _: said.pop(0))
    engine = local_engine(FakeModel(counting), folder)
    told = [
        [one.text for one in ask(engine, max_tokens=3)[0] if isinstance(one, NoticeRaised)]
        for _ in range(2)
    ]
    assert told == [["2 shapes came for the first time."], []]


def test_cancelling_ends_within_one_round(folder):
    engine = local_engine(FakeModel(counting), folder)
    stop = threading.Event()
    seen = []
    request = Request(prompt_ids=PROMPT, sampling=GREEDY, drafter="off", max_tokens=500)
    for event in engine.generate(request, stop):
        seen.append(event)
        if len(rounds_of(seen)) == 3:
            stop.set()
    assert seen[-1].record.finish_reason == "cancelled"
    assert len(seen[-1].record.rounds) == 3
    _, record = ask(engine, max_tokens=2)
    assert record.token_ids == (50, 51)


def test_cancelling_between_chunks_keeps_what_was_read(folder):
    engine = local_engine(FakeModel(counting), folder)
    stop = threading.Event()
    request = Request(prompt_ids=PROMPT * 60, sampling=GREEDY)
    events = []
    for event in engine.generate(request, stop):
        events.append(event)
        stop.set()
    record = events[-1].record
    assert (record.finish_reason, record.token_ids, record.ttft_s) == ("cancelled", (), 0.0)
    _, record = ask(engine, prompt_ids=PROMPT * 60, max_tokens=1)
    assert record.reused_tokens == 256
    assert engine._machine.model.prefilled == [(0, 256), (256, 512), (512, 600)]
    assert [(one.start, one.end) for one in record.ranges] == [(0, 600)]


def test_closing_the_generator_leaves_the_engine_usable(folder):
    engine = local_engine(FakeModel(counting), folder)
    request = Request(prompt_ids=PROMPT, sampling=GREEDY, drafter="off")
    generator = engine.generate(request, threading.Event())
    for event in generator:
        if isinstance(event, RoundEnded):
            break
    with pytest.raises(RequestError, match="still answering"):
        next(engine.generate(request, threading.Event()))
    generator.close()
    _, record = ask(engine, max_tokens=3)
    assert (record.token_ids, record.reused_tokens) == ((50, 51, 52), 10)


@pytest.mark.parametrize("fails_at", [5, 14])
def test_a_failure_ends_the_turn_and_leaves_the_engine_usable(folder, fails_at):
    model = FakeModel(counting, guess=counting)
    engine = local_engine(model, folder)
    model.fails_at = fails_at
    _, record = ask(engine, max_tokens=50, drafter="mtp", num_draft_tokens=2)
    assert (record.finish_reason, record.error) == (
        "error",
        "The engine failed: the device was lost",
    )
    assert record.token_ids == tuple(range(50, 50 + max(0, fails_at - 10)))
    model.fails_at = None
    _, record = ask(engine, max_tokens=3, drafter="mtp")
    assert (record.token_ids, record.finish_reason) == ((50, 51, 52), "length")
    assert record.reused_tokens == 0


def test_broken_logits_end_the_turn_with_a_sentence(folder):
    engine = local_engine(FakeModel(lambda _: torch.full((320,), math.nan)), folder)
    _, record = ask(engine)
    assert record.finish_reason == "error"
    assert record.error == (
        "The model computes what is no number: the logits of position 10 have no finite maximum: "
        "nan. If that comes again, download its files again; 'qwen38 check' proves the kernels."
    )


def test_a_failure_nobody_foresaw_does_not_leave_a_half_read_state(folder):
    model = FakeModel(counting)
    engine = local_engine(model, folder)

    def broken(_):
        raise KeyError("a bug")

    model.follow = broken
    with pytest.raises(KeyError):
        ask(engine)
    model.follow = counting
    assert ask(engine, max_tokens=2)[1].token_ids == (50, 51)
