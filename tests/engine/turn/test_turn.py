"""A turn ends for its reasons, tells what it did, and leaves the engine usable."""

import math
import threading
from dataclasses import replace

import pytest
import torch

from engine.draft.draft import Draft
from engine.errors import RequestError, TemplateError
from engine.records import PHASES
from engine.turn.check_request import check_prompt
from engine.turn.verify import Walk
from engine.types import (
    Message,
    NoticeRaised,
    PromptProgressed,
    Request,
    RoundEnded,
    Sampling,
    TextArrived,
    TurnEnded,
)
from tests.fakes.model import FakeModel, local_engine, run, write_text_files

GREEDY = Sampling(temperature=0.0)
PROMPT = tuple(range(40, 50))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_text_files(tmp_path_factory.mktemp("text"))


def counting(context) -> int:
    """Each token is one more than the last, within the printable bytes."""
    return 33 + (context[-1] - 32) % 90


def ask(engine, **options):
    options = {"prompt_ids": PROMPT, "sampling": GREEDY, "drafter": "off", **options}
    events = run(engine, Request(**options))
    assert isinstance(events[-1], TurnEnded)
    assert sum(isinstance(one, TurnEnded) for one in events) == 1
    return events, events[-1].record


def rounds_of(events):
    return [one.record for one in events if isinstance(one, RoundEnded)]


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


def test_padding_rows_are_never_chosen(folder):
    logits = torch.zeros(320)
    logits[319], logits[65] = 9.0, 1.0
    engine = local_engine(FakeModel(lambda _: logits), folder)
    assert set(ask(engine, max_tokens=3)[1].token_ids) == {65}


def test_penalties_count_what_was_generated_and_read(folder):
    logits = torch.zeros(320)
    logits[40], logits[70], logits[71] = 3.0, 2.9, 2.8
    engine = local_engine(FakeModel(lambda _: logits), folder)
    presence = Sampling(temperature=0.0, presence_penalty=1.0)
    assert ask(engine, sampling=presence, max_tokens=3)[1].token_ids == (40, 70, 71)
    repetition = Sampling(temperature=0.0, repetition_penalty=2.0)
    assert ask(engine, sampling=repetition, max_tokens=3)[1].token_ids == (70, 71, 40)


def test_penalties_pass_over_ids_that_no_token_has(folder):
    sampling = Sampling(temperature=0.0, presence_penalty=1.0)
    _, record = ask(
        local_engine(FakeModel(counting), folder),
        prompt_ids=(*PROMPT, 319), sampling=sampling, max_tokens=2,
    )  # fmt: skip
    assert (record.token_ids, record.error) == ((50, 51), "")


@pytest.mark.parametrize("drafter", ["off", "replay", "half"])
def test_a_bias_moves_the_choice_and_not_the_logits(folder, drafter):
    logits = torch.zeros(320)
    logits[40], logits[70], logits[71] = 3.0, 2.0, 1.0
    engine = local_engine(FakeModel(lambda _: logits), folder)
    for bias, chosen in (
        (((40, -100.0),), 70), (((71, 2.5),), 71), (((40, -1e6), (71, 1.0)), 70),
    ):  # fmt: skip
        sampling = Sampling(temperature=0.0, logit_bias=bias)
        options = {"sampling": sampling, "max_tokens": 4, "drafter": drafter, "keep_logits": True}
        record = ask(engine, **options)[1]
        assert set(record.token_ids) == {chosen}
        assert all(torch.equal(row, logits) for row in record.logits)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"sampling": Sampling(logit_bias=((319, 1.0),))}, "names the id 319, expected 0 to 30"),
        ({"sampling": Sampling(logit_bias=((5, math.nan),))}, "of the id 5 is nan, expected"),
        ({"thinking_budget": -1}, "'thinking_budget' is -1, expected 0 or more"),
    ],
)
def test_a_bias_or_budget_that_cannot_be_is_refused(folder, options, problem):
    with pytest.raises(RequestError, match=problem):
        ask(local_engine(FakeModel(counting), folder), **options)


def test_logits_are_kept_on_demand(folder):
    engine = local_engine(FakeModel(counting), folder)
    assert ask(engine, max_tokens=3)[1].logits is None
    logits = ask(engine, max_tokens=3, keep_logits=True, drafter="replay")[1].logits
    assert (logits.dtype, logits.shape) == (torch.float32, (3, 320))
    assert logits.argmax(1).tolist() == [50, 51, 52]


def test_drafted_rounds_say_what_was_tested_and_accepted(folder):
    engine = local_engine(
        FakeModel(counting, guess=lambda c: counting(c) if len(c) % 2 else 1), folder
    )
    events, record = ask(engine, max_tokens=9, drafter="mtp", num_draft_tokens=3)
    assert record.token_ids == tuple(range(50, 59))
    for one in rounds_of(events):
        assert one.drafter == "mtp"
        assert one.tested - one.accepted in (0, 1)
        assert len(one.token_ids) == one.accepted + 1
        assert one.num_bytes["drafter"] == 10 * (one.rows - 1)
        assert one.num_bytes["weights"] == 1000 * len(one.token_ids)
    assert any(one.accepted for one in rounds_of(events))


def test_a_tree_that_the_head_cannot_make_is_said(folder):
    engine = local_engine(FakeModel(counting, guess=counting), folder)
    events, record = ask(engine, max_tokens=5, drafter="auto", draft_shape="tree")
    assert {(one.drafter, one.shape) for one in record.rounds} == {("mtp", "chain")}
    assert any(isinstance(one, NoticeRaised) and "chains" in one.text for one in events)
    events, _ = ask(engine, max_tokens=5, drafter="auto", draft_shape="auto")
    assert not any(isinstance(one, NoticeRaised) and "chains" in one.text for one in events)


def test_lookup_copies_from_the_conversation_and_only_from_it(folder):
    """Its index is kept from turn to turn; another conversation finds nothing of this one."""
    engine = local_engine(FakeModel(lambda context: 40 + (context[-1] - 39) % 20), folder)

    def committed(record):
        return [len(one.token_ids) for one in record.rounds]

    _, first = ask(engine, prompt_ids=(40, 41), max_tokens=35, drafter="lookup")
    assert committed(first) == [*[1] * 19, 15]  # from its own beginning, once it came again
    index = engine._memory.ngrams
    longer = (40, 41, *first.token_ids, 9, 45)
    _, second = ask(engine, prompt_ids=longer, max_tokens=17, drafter="lookup")
    assert engine._memory.ngrams is index
    assert committed(second) == [11, 5]  # 10 tokens from the answer before, which ended there
    _, other = ask(engine, prompt_ids=(45, 45), max_tokens=17, drafter="lookup")
    assert committed(other) == [1] * 16


def test_a_draft_beyond_its_room_ends_the_turn(folder, monkeypatch):
    """Rows beyond the context have no place in the cache of keys."""
    monkeypatch.setattr(
        "engine.draft.drafter.NoDrafter.propose", lambda *_: Draft.chain(range(40, 60))
    )
    engine = local_engine(FakeModel(counting), folder)
    _, record = ask(engine, max_tokens=50, drafter="off")
    assert record.finish_reason == "error"
    assert "the drafter 'off' proposes 20 tokens and the round has room for 3" in record.error
    _, record = ask(engine, max_tokens=50, drafter="off", num_draft_tokens=20)
    assert record.finish_reason == "error"  # in the last rounds
    assert len(record.token_ids) == 50 - 20


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"max_tokens": 0}, "'max_tokens' is 0"),
        ({"num_draft_tokens": -1}, "'num_draft_tokens' is -1"),
        ({"stop": ("",)}, "stop string is empty"),
        ({"prompt_ids": None}, "nothing to answer"),
        ({"prompt_ids": ()}, "holds no token"),
        ({"prompt_ids": (1, 320)}, "holds the id 320"),
        ({"prompt_ids": (1,) * 4096}, "has 4096 tokens and the context 4096"),
        ({"prompt_ids": (1,) * 4096}, r"Raise model.context_tokens \(up to 1048576\)"),
        ({"drafter": "lokup"}, "no drafter 'lokup'. Did you mean 'lookup'"),
        ({"draft_shape": "chian"}, "no shape 'chian' of drafts. Did you mean 'chain'"),
        ({"drafter": "mtp"}, "has none"),
        ({"sampling": Sampling(temperature=-1)}, "'temperature' is -1"),
        ({"sampling": Sampling(top_p=math.nan)}, "'top_p' is nan"),
        ({"sampling": Sampling(seed=-1)}, "'seed' is -1"),
        ({"prompt_ids": None, "messages": (Message("user", "x"),), "effort": "much"}, "effort"),
    ],
)
def test_bad_requests_are_refused_before_anything_happens(folder, options, sentence):
    engine = local_engine(FakeModel(counting), folder)
    with pytest.raises(RequestError, match=sentence):
        ask(engine, **options)
    assert ask(engine, max_tokens=1)[1].token_ids == (50,)


def test_a_prompt_beyond_what_the_model_holds_names_no_setting():
    with pytest.raises(RequestError, match=r"holds no more.*a new conversation") as refused:
        check_prompt((1,) * 4096, 300, 4096, 4096)
    assert "model.context_tokens" not in str(refused.value)


def test_a_template_that_refuses_raises_before_the_first_event(tmp_path):
    write_text_files(tmp_path, "{{ raise_exception('I refuse') }}")
    engine = local_engine(FakeModel(counting), tmp_path)
    with pytest.raises(TemplateError, match="I refuse"):
        ask(engine, prompt_ids=None, messages=(Message("user", "hello"),))
    engine.close()


def test_a_closed_engine_says_so(folder):
    engine = local_engine(FakeModel(counting), folder)
    engine.close()
    with pytest.raises(RequestError, match="is closed"):
        ask(engine)


def test_a_shape_that_changes_nothing_is_told_once(folder):
    engine = local_engine(FakeModel(counting, guess=counting), folder)
    told = []
    for _ in range(2):
        events, _record = ask(engine, drafter="mtp", draft_shape="tree", max_tokens=3)
        told.append([one.text for one in events if isinstance(one, NoticeRaised)])
    assert ["chains" in text for text in told[0]] == [True]
    assert not any("chains" in text for text in told[1])
