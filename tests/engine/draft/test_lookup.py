"""The lookup drafter copies from the conversation, and branches where it went on differently."""

import random
import statistics
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.draft.lookup import LookupDrafter, grow_tree
from engine.draft.ngrams import NgramIndex
from tests.tries import slowness, tries

PROMPT = (1, 2, 3, 4, 9, 1, 2, 5, 6, 9, 1, 2, 3, 7)


def lookup(prompt, answer, *, branches=True, index=None) -> LookupDrafter:
    return LookupDrafter(index or NgramIndex(), prompt, answer, branches=branches)


def proposals(drafter, answer, num_tokens=4):
    return drafter.propose(answer[-1], len(answer), num_tokens)


def paths_of(draft) -> set[tuple[int, ...]]:
    """The tokens on the way to every row but the first."""
    return {tuple(draft.token_ids[row - 1] for row in path[1:]) for path in draft.plan.paths[1:]}


def test_it_copies_from_the_prompt_and_the_answer():
    answer = [3, 4]
    drafter = lookup(PROMPT, answer, branches=False)
    assert proposals(drafter, answer).token_ids == (9, 1, 2, 5)
    answer += [8, 8, 3, 4]
    assert proposals(drafter, answer).token_ids == (8, 8, 3, 4)  # the newest place


def test_it_proposes_nothing_where_nothing_stood_before():
    answer = [8]
    assert proposals(lookup(PROMPT, answer), answer).token_ids == ()


def test_differing_continuations_share_a_tree_unless_a_chain_is_asked_for():
    answer = [1, 2]
    draft = proposals(lookup(PROMPT, answer), answer, 12)
    assert draft.shape == "tree"
    assert {(3, 7, 1, 2), (5, 6)} <= paths_of(draft)
    chain = proposals(lookup(PROMPT, answer, branches=False), answer, 3)
    assert (chain.shape, chain.token_ids) == ("chain", (3, 7, 1))


def test_one_continuation_is_a_chain():
    answer = [5, 6]
    assert proposals(lookup(PROMPT, answer), answer).shape == "chain"


def foresee(text, num_tokens, *, branches) -> int:
    """Draft a text that foresees itself beside one that does not; how often it was right."""
    prompt, rest = text[:20], text[20:]
    answer, committed, foreseen, num_right = [rest[0]], [], None, 0
    guessing, plain = (lookup(prompt, answer, branches=branches) for _ in range(2))
    while len(answer) < len(rest):
        draft, wanted = (proposals(one, answer, num_tokens) for one in (guessing, plain))
        assert draft == wanted
        if foreseen is not None and committed == list(foreseen.token_ids):
            assert draft == foreseen.draft
            num_right += 1
        foreseen = guessing.prepare(len(answer), lambda _: num_tokens)
        _, accepted = draft.agreement(rest[len(answer) :])
        committed = rest[len(answer) :][: accepted + 1]
        answer += committed
    return num_right


@given(st.lists(st.integers(0, 3), min_size=40, max_size=80), st.integers(1, 6), st.booleans())
def test_to_foresee_changes_no_proposal(text, num_tokens, branches):
    """Whether the text then goes on so or not."""
    foresee(text, num_tokens, branches=branches)


def test_a_copy_that_goes_on_is_foreseen():
    assert foresee([1, 2, 3, 4, 5] * 12, 3, branches=True) >= 9


REPEATED = (1, 2, 3, 4, 5) * 4


def test_what_was_foreseen_for_another_room_is_looked_up_anew():
    answer = [1, 2]
    drafter = lookup(REPEATED, answer)
    proposals(drafter, answer, 3)
    foreseen = drafter.prepare(len(answer), lambda _: 2)
    assert (foreseen.token_ids, foreseen.draft.token_ids) == ((3, 4, 5, 1), (2, 3))
    answer += foreseen.token_ids
    assert proposals(drafter, answer, 4).token_ids == (2, 3, 4, 5)


def test_nothing_is_foreseen_behind_tokens_that_were_not_looked_up():
    answer = [1, 2]
    drafter = lookup(REPEATED, answer)
    proposals(drafter, answer, 3)
    answer.append(3)
    assert drafter.prepare(len(answer), lambda _: 3) is None
    assert proposals(drafter, answer, 3).token_ids == (4, 5, 1)


def test_nothing_is_foreseen_without_room():
    answer = [1, 2]
    drafter = lookup(REPEATED, answer)
    proposals(drafter, answer, 3)
    assert drafter.prepare(len(answer), lambda num_committed: 4 - num_committed) is None
    assert drafter.prepare(len(answer), lambda num_committed: 5 - num_committed) is not None


def test_the_newest_continuation_gets_the_most_rows():
    draft = grow_tree([(1, 2, 3, 4, 5, 6, 7, 8), (9, 9, 9, 9, 9, 9, 9, 9)], 8)
    newest = sum(path[0] == 1 for path in paths_of(draft))
    assert (newest, len(paths_of(draft))) == (7, 8)


@given(
    st.lists(st.tuples(*[st.integers(0, 2)] * 31), min_size=1, max_size=4, unique=True),
    st.integers(1, 31),
)
def test_a_tree_holds_beginnings_of_its_continuations_and_no_path_twice(continuations, num_tokens):
    continuations = list(dict.fromkeys(one[:num_tokens] for one in continuations))
    draft = grow_tree(continuations, num_tokens)
    paths = [tuple(draft.token_ids[row - 1] for row in path[1:]) for path in draft.plan.paths[1:]]
    assert len(set(paths)) == len(paths) == num_tokens
    beginnings = {one[:length] for one in continuations for length in range(1, num_tokens + 1)}
    assert set(paths) <= beginnings
    assert continuations[0][:1] in paths


def test_what_it_proposes_depends_on_the_conversation_alone():
    """An index that an earlier turn left behind, of this conversation or of another, is no help."""
    used = NgramIndex()
    for prompt, answer in (((4, 4, 4, 5), [6, 4, 4]), (PROMPT[:9], [3, 4, 9, 1]), (PROMPT, [2, 1])):
        assert (
            proposals(lookup(prompt, answer, index=used), answer).token_ids
            == proposals(lookup(prompt, answer), answer).token_ids
        )


@pytest.mark.timing
@pytest.mark.parametrize("num_tokens", [15, 31])
def test_a_proposal_takes_less_than_a_fifth_of_a_millisecond(num_tokens):
    """At 32k tokens of context, with branches, as words of a text repeat (Zipf's law)."""
    draw = random.Random(0)
    words = [draw.choices(range(200_000), k=draw.randint(1, 4)) for _ in range(3000)]
    shares = [1 / rank for rank in range(1, 3001)]

    def written(num_words: int) -> list[int]:
        return [one for word in draw.choices(words, shares, k=num_words) for one in word]

    answer: list[int] = written(1)
    drafter = lookup(written(16_000)[:32_768], answer)
    proposals(drafter, answer, num_tokens)  # indexes the prompt
    for _ in tries():
        taken: list[float] = []
        shapes = set()
        for _ in range(200):
            answer += written(2)
            began = time.perf_counter()
            shapes.add(proposals(drafter, answer, num_tokens).shape)
            taken.append(time.perf_counter() - began)
        assert shapes == {"chain", "tree"}
        if (ms := statistics.median(taken) * 1e3) < 0.2 * slowness():
            return
    pytest.fail(f"it takes {ms:.2f} ms")
