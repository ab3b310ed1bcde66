"""Draft against choice: what each token is, and which characters it brought."""

import threading

import pytest

from app.sessions.turns import pack, unpack
from app.tui.instruments.token_kinds import (
    GrowingSpans,
    Span,
    Step,
    kinds_of,
    spans_of,
    steps_of,
)
from engine.types import Request, RoundEnded, TextArrived, TurnEnded
from tests.app.records import a_round, a_turn
from tests.fakes.engine import Script, ScriptedEngine


def test_a_wrong_draft_is_corrected_and_its_rest_was_not_looked_at():
    one = a_round(accepted=1, tested=2, ids=(5, 6), draft=(5, 9, 8))
    assert steps_of(one) == [
        Step((5,), 5, "accepted"),
        Step((9,), 6, "corrected"),
        Step((8,), None),
    ]


def test_a_draft_that_is_right_to_its_end_brings_one_token_more():
    one = a_round(accepted=2, tested=2, ids=(5, 6, 7), draft=(5, 6))
    assert [step.kind for step in steps_of(one)] == ["accepted", "accepted", "bonus"]


def test_a_tree_is_followed_along_the_way_that_the_model_went():
    # rows: 1 and 3 follow row 0, 2 follows 1, 4 follows 3
    one = a_round(accepted=1, tested=2, ids=(30, 41), draft=(10, 20, 30, 40), parents=(0, 1, 0, 3))
    assert steps_of(one) == [Step((10, 30), 30, "accepted"), Step((40,), 41, "corrected")]


def test_plain_decode_has_plain_tokens():
    assert kinds_of(a_turn([a_round(accepted=0, tested=0, ids=(5,))])) == ["plain", "plain"]


def test_spans_are_of_the_answer_without_its_thinking():
    one = a_round(accepted=1, tested=2, ids=(5, 6))
    turn = a_turn([one], text="Hi there", reasoning="hm", chars=(2, 3, 5))
    assert spans_of(turn) == [Span(0, 3, "accepted"), Span(3, 8, "corrected")]
    assert spans_of(a_turn([one], text="Hi there")) == []


def test_drafts_and_characters_are_kept_with_the_conversation():
    rounds = [
        a_round(0, ids=(5, 6, 7), draft=(5, 6, 9)),
        a_round(1, accepted=1, ids=(30, 41), draft=(10, 20, 30), parents=(0, 1, 0)),
    ]
    turn = a_turn(rounds, text="abc", chars=(1, 1, 1, 0, 0, 0))
    assert unpack(pack(turn), "abc", "") == turn
    assert unpack({k: v for k, v in pack(turn).items() if k != "drafts"}, "", "").rounds


@pytest.mark.parametrize("thinking", ["", "let me see now"])
def test_the_characters_of_an_answer_in_progress_are_those_of_its_record(thinking):
    script = Script(answer="one two three four five six seven", thinking=thinking)
    growing, said, found = GrowingSpans(), "", []
    for event in ScriptedEngine([script]).generate(Request(), threading.Event()):
        if isinstance(event, TextArrived) and event.channel == "answer":
            said += event.text
        if isinstance(event, RoundEnded):
            growing.take(event.record, event.token_chars)
            found.append((len(said), list(growing.spans(len(thinking)))))
        if isinstance(event, TurnEnded):
            record = event.record
    whole = spans_of(record)
    assert found[-1][1] == whole
    for num_chars, spans in found:
        assert spans == whole[: len(spans)]
        assert (spans[-1].end if spans else 0) == num_chars


def test_a_first_token_out_of_the_prefill_is_plain():
    growing = GrowingSpans()
    growing.take(a_round(accepted=1, tested=2, ids=(5, 6)), (2, 3, 4))
    assert growing.spans(0) == [
        Span(0, 2, "plain"), Span(2, 5, "accepted"), Span(5, 9, "corrected"),
    ]  # fmt: skip
    growing.take(a_round(ids=(5, 6)), ())
    assert len(growing.spans(0)) == 3
