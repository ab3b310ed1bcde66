"""What a turn with drafts tells of them, and where they are refused."""

from engine.draft.draft import Draft
from engine.types import NoticeRaised
from tests.engine.turn.asked import ask, counting, rounds_of
from tests.fakes.model import FakeModel, local_engine


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


def test_a_shape_that_changes_nothing_is_told_once(folder):
    engine = local_engine(FakeModel(counting, guess=counting), folder)
    told = []
    for _ in range(2):
        events, _record = ask(engine, drafter="mtp", draft_shape="tree", max_tokens=3)
        told.append([one.text for one in events if isinstance(one, NoticeRaised)])
    assert ["chains" in text for text in told[0]] == [True]
    assert not any("chains" in text for text in told[1])


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
