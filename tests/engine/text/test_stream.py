"""Text comes whole, in the right channel, and stops before stop strings."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.text.stream import Stopping, TextStream
from engine.text.tokenizer import Tokenizer
from tests.fakes.model import write_text_files


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory) -> Tokenizer:
    return Tokenizer.load(write_text_files(tmp_path_factory.mktemp("text")), 320)


def stream(tokenizer, ids, **options):
    one = TextStream(tokenizer, **options)
    pieces = [piece for token_id in ids for piece in one.push(token_id)] + one.finish()
    assert all(text for _, text in pieces)
    for channel, whole in (("answer", one.answer), ("thinking", one.reasoning)):
        assert whole == "".join(text for name, text in pieces if name == channel)
    return one


def ids_of(tokenizer, text):
    return tokenizer.encode(text, control=True)


@given(st.lists(st.integers(0, 319), max_size=60))
@settings(deadline=None, max_examples=300)
def test_any_ids_give_exactly_their_whole_decode(tokenizer, ids):
    think = (tokenizer.think_open_id, tokenizer.think_close_id)
    ids = [one for one in ids if one not in think]
    assert stream(tokenizer, ids).answer == tokenizer.decode(ids)


@given(st.text(st.characters(codec="utf-8", exclude_characters="\ufffd\ufdd0"), max_size=40))
@settings(deadline=None)
def test_a_piece_never_ends_inside_a_character(tokenizer, text):
    one = TextStream(tokenizer)
    for token_id in tokenizer.encode(text, control=False):
        for _, piece in one.push(token_id):
            assert "\ufffd" not in piece


@given(st.lists(st.integers(0, 319), max_size=40), st.integers(0, 40))
@settings(deadline=None)
def test_thinking_and_answer_are_their_own_decodes(tokenizer, ids, at):
    think = (tokenizer.think_open_id, tokenizer.think_close_id)
    ids = [one for one in ids if one not in think]
    at = min(at, len(ids))
    one = stream(tokenizer, [*ids[:at], tokenizer.think_close_id, *ids[at:]], thinking=True)
    assert one.reasoning == tokenizer.decode(ids[:at]).strip()
    assert one.answer == tokenizer.decode(ids[at:]).lstrip()


def test_control_tokens_do_not_leak(tokenizer):
    ids = ids_of(tokenizer, "<|im_start|>hello<tool_call> there<|im_end|><|endoftext|>")
    assert stream(tokenizer, ids).answer == "hello there"


def test_the_templates_white_space_around_thinking_is_left_out(tokenizer):
    ids = ids_of(tokenizer, "a river \n of ice\n</think>\n\nhello  there \n<|im_end|>")
    one = stream(tokenizer, ids, thinking=True)
    assert (one.reasoning, one.answer) == ("a river \n of ice", "hello  there \n")


def test_a_model_may_begin_to_think_by_itself(tokenizer):
    one = stream(tokenizer, ids_of(tokenizer, "<think>\nice\n</think>\n\nhello"))
    assert (one.reasoning, one.answer) == ("ice", "hello")


def whole_text_cut(text: str, stops: tuple[str, ...]) -> str:
    """The slow truth: look at every beginning of the text."""
    for end in range(len(text) + 1):
        starts = [end - len(one) for one in stops if text[:end].endswith(one)]
        if starts:
            return text[: min(starts)]
    return text


@given(
    st.lists(st.text("ab", max_size=4), max_size=12),
    st.lists(st.text("ab", min_size=1, max_size=4), max_size=3),
)
@settings(max_examples=400, deadline=None)
def test_stop_strings_are_found_however_the_text_is_cut(parts, stops):
    stopping = Stopping(tuple(stops))
    given_out = ""
    for part in parts:
        given_out += stopping.feed(part)
        if stopping.found:
            break
    else:
        given_out += stopping.release()
    assert given_out == whole_text_cut("".join(parts), tuple(stops))


def test_text_that_may_become_a_stop_string_is_held_back(tokenizer):
    one = TextStream(tokenizer, stops=("STOP",))
    given_out = [one.push(token_id) for token_id in tokenizer.encode("xST", control=False)]
    assert given_out == [[("answer", "x")], [], []]
    assert one.finish() == [("answer", "ST")]


def test_stop_strings_do_not_count_in_thinking(tokenizer):
    ids = ids_of(tokenizer, "ice stop\n</think>\n\nhello stop there")
    one = stream(tokenizer, ids, thinking=True, stops=("stop",))
    assert (one.reasoning, one.answer, one.stopped) == ("ice stop", "hello ", True)
