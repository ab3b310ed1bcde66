"""Texts become sequences that stand for all of them."""

import hashlib

import pytest

from engine.model.config_file import read_config
from engine.profile import profile_folder
from engine.quantize.calibration import SHIPPED, read_calibration
from engine.text.tokenizer import Tokenizer
from tests.engine.quantize.demo import DEMO, exchanges


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.load(DEMO, read_config(DEMO).vocab_size)


def test_the_text_that_ships_has_chats_prose_and_code(tokenizer):
    found = read_calibration(None, tokenizer, max_tokens=1 << 20, sequence_tokens=2048)
    raw = (profile_folder() / SHIPPED).read_bytes()
    assert found.sha256 == hashlib.sha256(raw).hexdigest()
    assert found.num_tokens > 100_000
    text = raw.decode()
    for part in ("<|im_start|>user\n", "## How to add a profile", "\ndef "):
        assert part in text


def test_the_text_that_ships_leaves_out_what_tests_are_held_on():
    text = (profile_folder() / SHIPPED).read_text()
    unseen = exchanges(held_out=True).split("<|im_start|>user\n")[1:]
    assert len(unseen) > 50
    assert not [one for one in unseen if one in text]


def test_control_tokens_of_a_text_are_read_as_such(tokenizer, tmp_path):
    path = tmp_path / "text"
    path.write_text("<|im_start|>user\nhello<|im_end|>\n" * 100)
    found = read_calibration(path, tokenizer, max_tokens=4096, sequence_tokens=128)
    assert found.sequences[0][0] == tokenizer.control_ids["<|im_start|>"]


def test_fewer_tokens_are_taken_from_all_over_the_text(tokenizer, tmp_path):
    path = tmp_path / "text"
    path.write_text(" ".join(f"word {i}" for i in range(2000)))
    whole = read_calibration(path, tokenizer, max_tokens=1 << 20, sequence_tokens=100)
    some = read_calibration(path, tokenizer, max_tokens=450, sequence_tokens=100)
    places = [whole.sequences.index(one) for one in some.sequences]
    assert len(places) == 4
    assert places[0] == 0
    assert places[-1] > len(whole.sequences) // 2
    assert {len(one) for one in some.sequences} == {100}


def test_at_least_one_sequence_is_read(tokenizer, tmp_path):
    path = tmp_path / "text"
    path.write_text("a few words more " * 200)
    found = read_calibration(path, tokenizer, max_tokens=1, sequence_tokens=300)
    assert [len(one) for one in found.sequences] == [300]
