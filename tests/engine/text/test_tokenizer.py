"""Ids and text of the checkpoint's tokenizer; what people type is never a control token."""

import json

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import CheckpointError
from engine.text.tokenizer import GUARD, Tokenizer
from tests.fakes.model import MARKS, SPECIALS, write_text_files


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_text_files(tmp_path_factory.mktemp("text"))


@pytest.fixture(scope="module")
def tokenizer(folder) -> Tokenizer:
    return Tokenizer.load(folder, 320)


@pytest.fixture(scope="module")
def library(folder) -> tokenizers.Tokenizer:
    return tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))


SPICY = st.lists(
    st.one_of(st.text(max_size=8), st.sampled_from([*SPECIALS, *MARKS, "<", "<|", "|>", GUARD])),
    max_size=8,
).map("".join)


@given(st.text(max_size=60).filter(lambda text: GUARD not in text))
@settings(deadline=None)
def test_text_without_control_tokens_gets_the_librarys_ids(tokenizer, library, text):
    assert tokenizer.encode(text, control=False) == library.encode(text).ids


@given(SPICY)
@settings(deadline=None)
def test_foreign_text_never_gives_a_control_token(tokenizer, text):
    ids = tokenizer.encode(text, control=False)
    assert not any(tokenizer.is_control(one) for one in ids)
    wanted = text.replace(GUARD, "\ufffd")
    library = tokenizers.normalizers.NFC()
    assert tokenizer.decode(ids) == library.normalize_str(wanted)


@given(SPICY, SPICY)
@settings(deadline=None)
def test_guarded_text_stays_text_inside_a_rendering(tokenizer, one, other):
    rendering = f"<|im_start|>user\n{tokenizer.guard(one)}<|im_end|>\n{tokenizer.guard(other)}"
    ids = tokenizer.encode_guarded(rendering)
    controls = [one for one in ids if tokenizer.is_control(one)]
    assert controls == [tokenizer.control_ids["<|im_start|>"], tokenizer.control_ids["<|im_end|>"]]


def test_a_template_gets_the_librarys_ids(tokenizer, library):
    text = "<|im_start|>user\nwhat is <b>a</b> glacier?<|im_end|>\n<|im_start|>assistant\n<think>\n"
    assert tokenizer.encode(text, control=True) == library.encode(text).ids


def test_lone_surrogates_are_replaced_and_pairs_joined(tokenizer):
    ids = tokenizer.encode("a\ud800b\ud83d\ude00", control=False)
    assert tokenizer.decode(ids) == "a\ufffdb😀"


@given(st.lists(st.integers(0, 319), max_size=40))
@settings(deadline=None)
def test_decoding_is_the_librarys(tokenizer, library, ids):
    assert tokenizer.decode(ids, control=True) == library.decode(ids, skip_special_tokens=False)


@given(SPICY)
@settings(deadline=None)
def test_a_text_never_has_fewer_ids_than_foretold(tokenizer, text):
    for rendering in (text, tokenizer.guard(text), "a\u0304\u0323" * 9 + text):
        assert tokenizer.fewest_ids(rendering) <= len(tokenizer.encode_guarded(rendering))


def test_the_foretold_number_grows_with_the_text(tokenizer):
    assert tokenizer.fewest_ids("") == 0
    assert tokenizer.fewest_ids("ab" * 500_000) > 10_000


def test_an_id_is_in_the_tokenizer_or_not(tokenizer):
    assert tokenizer.has(tokenizer.num_ids - 1)
    assert not tokenizer.has(tokenizer.num_ids)


def test_ids_beyond_the_tokenizer_are_padding(tokenizer):
    assert max(tokenizer.control_ids.values()) == tokenizer.num_ids - 1 < 319
    assert tokenizer.decode([tokenizer.num_ids, 319]) == ""


def test_thinking_is_told_by_the_last_think_token(tokenizer):
    def starts(text):
        return tokenizer.starts_thinking(tokenizer.encode(text, control=True))

    assert starts("<think>\n")
    assert starts("<think>a</think><think>\n")
    assert not starts("<think>\n\n</think>\n\n")
    assert not starts("hello")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "holds no tokenizer.json"),
        ("{", "does not read"),
        ("[]", "holds no JSON object"),
        ("{}", "is no tokenizer"),
        (b"\xff\xfe", "does not read"),
    ],
)
def test_broken_files_are_refused_with_a_sentence(tmp_path, content, sentence):
    if content is not None:
        raw = content.encode() if isinstance(content, str) else content
        (tmp_path / "tokenizer.json").write_bytes(raw)
    with pytest.raises(CheckpointError, match=sentence):
        Tokenizer.load(tmp_path, 320)


def changed(folder, tmp_path, change):
    definition = json.loads((folder / "tokenizer.json").read_text())
    change(definition)
    (tmp_path / "tokenizer.json").write_text(json.dumps(definition))
    return tmp_path


def test_other_decoders_are_refused(folder, tmp_path):
    other = changed(folder, tmp_path, lambda one: one.update(decoder={"type": "Fuse"}))
    with pytest.raises(CheckpointError, match="decoder Fuse, expected ByteLevel"):
        Tokenizer.load(other, 320)


def test_added_tokens_that_strip_are_refused(folder, tmp_path):
    other = changed(folder, tmp_path, lambda one: one["added_tokens"][0].update(rstrip=True))
    with pytest.raises(CheckpointError, match="cannot be told from text"):
        Tokenizer.load(other, 320)


def test_a_tokenizer_of_a_larger_model_is_refused(folder):
    with pytest.raises(CheckpointError, match="but the model has 100 rows"):
        Tokenizer.load(folder, 100)
