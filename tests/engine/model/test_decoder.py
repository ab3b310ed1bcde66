"""Prefill, decode, states: what the loop relies on."""

import time

import pytest
import torch

from engine.errors import RequestError
from engine.model.config import SHAPE_DEMO
from engine.model.random import random_model
from engine.profile import Formats
from kernels.common.compare import different_bits
from tests.engine.model.checkpoints import TINY
from tests.tries import tries

BF16 = Formats("bf16", "bf16", "bf16", "bf16", "bf16")
IDS = [(7 * one) % 160 for one in range(200)]


@pytest.fixture(scope="module")
def model():
    return random_model(TINY, BF16, device="cpu", seed=1)


def test_prefill_returns_a_row_for_every_token(model):
    state = model.new_state(256)
    hidden = model.prefill(IDS[:150], state, chunk_tokens=64)
    assert hidden.shape == (150, TINY.hidden_size)
    assert hidden.dtype == torch.bfloat16
    assert state.length == 150


def test_prefill_in_two_calls_cut_at_64_has_the_bits_of_one(model):
    whole, parts = model.new_state(256), model.new_state(256)
    one = model.prefill(IDS, whole)
    two = torch.cat((model.prefill(IDS[:128], parts), model.prefill(IDS[128:], parts)))
    assert different_bits(two, one, "TD") is None
    assert torch.equal(parts.recurrent, whole.recurrent)


def test_nothing_to_read_gives_no_rows(model):
    assert len(model.prefill([], model.new_state(256))) == 0


@pytest.mark.parametrize("chunk_tokens", [0, 63, -64])
def test_chunks_off_the_grid_are_refused(model, chunk_tokens: int):
    with pytest.raises(ValueError, match="multiple of 64"):
        model.prefill(IDS, model.new_state(256), chunk_tokens=chunk_tokens)


def test_a_restored_state_goes_on_with_the_same_bits(model):
    state = model.new_state(256)
    model.prefill(IDS[:70], state)
    here = state.snapshot()
    first = [model.step(one, state) for one in IDS[70:80]]
    state.restore(here)
    assert state.length == 70
    again = [model.step(one, state) for one in IDS[70:80]]
    assert all(torch.equal(one, other) for one, other in zip(first, again, strict=True))


def test_a_snapshot_from_beyond_a_restored_point_is_stale(model):
    state = model.new_state(256)
    early = state.snapshot()
    model.prefill(IDS[:10], state)
    late = state.snapshot()
    state.restore(late)
    state.restore(early)
    assert not early.is_stale
    assert late.is_stale
    with pytest.raises(ValueError, match="stale"):
        state.restore(late)


def test_the_room_of_a_state_changes_no_bit(model):
    states = [model.new_state(room) for room in (600, 2048)]
    hidden = [torch.cat([model.prefill(IDS, state) for _ in range(3)]) for state in states]
    assert states[0].num_bytes < states[1].num_bytes
    assert different_bits(hidden[0], hidden[1], "TD") is None


def test_snapshots_that_are_gone_leave_nothing_behind(model):
    state = model.new_state(256)
    for _ in range(3):
        state.restore(state.snapshot())
    assert len(state._snapshots) == 0


def test_a_full_state_is_a_sentence_and_changes_nothing(model):
    state = model.new_state(64)
    model.prefill(IDS[:64], state)
    with pytest.raises(RequestError, match="needs 65 tokens of context and 64 were reserved"):
        model.step(1, state)
    assert state.length == 64


@pytest.mark.parametrize("token_id", [-1, 160])
def test_a_token_outside_the_vocabulary_is_a_sentence(model, token_id: int):
    with pytest.raises(RequestError, match="outside the model's vocabulary of 160"):
        model.step(token_id, model.new_state(64))
    with pytest.raises(RequestError, match="outside the model's vocabulary"):
        model.prefill([1, token_id], model.new_state(64))


def test_the_drafts_keys_are_the_same_filled_token_by_token_or_at_once(model):
    state = model.new_state(256)
    hidden = model.prefill(IDS[:100], state)
    fresh, grown = model.mtp.new_state(256), model.mtp.new_state(256)
    model.mtp.fill(hidden[:99], IDS[1:100], fresh)
    model.mtp.fill(hidden[:40], IDS[1:41], grown)
    for row in range(40, 99):
        model.mtp.draft([hidden[row : row + 1]], IDS[row + 1 : row + 2], grown, 3)
        model.mtp.fill(hidden[row : row + 1], IDS[row + 1 : row + 2], grown)
    assert fresh.length == grown.length == 99
    for one, other in ((fresh.kv.keys, grown.kv.keys), (fresh.kv.values, grown.kv.values)):
        torch.testing.assert_close(one[:, :, :99], other[:, :, :99], rtol=2**-7, atol=2**-7)
    drafts = [model.mtp.draft([hidden[99:100]], [5], state, 4) for state in (fresh, grown)]
    assert drafts[0] == drafts[1]


def test_a_draft_leaves_its_state_as_it_was(model):
    hidden = model.prefill(IDS[:20], model.new_state(64))
    state = model.mtp.new_state(64)
    model.mtp.fill(hidden[:19], IDS[1:20], state)
    before = state.kv.keys[:, :, :19].clone()
    first = model.mtp.draft([hidden[19:]], [3], state, 5)
    assert len(first) == 5
    assert state.length == 19
    assert torch.equal(state.kv.keys[:, :, :19], before)
    assert model.mtp.draft([hidden[19:]], [3], state, 3) == first[:3]
    state.truncate(7)
    assert state.length == 7
    with pytest.raises(ValueError, match="not within"):
        state.truncate(8)


def test_a_draft_appends_the_rows_before_its_last(model):
    hidden = model.prefill(IDS[:60], model.new_state(64))
    apart, at_once = model.mtp.new_state(64), model.mtp.new_state(64)
    model.mtp.fill(hidden[:59], IDS[1:60], apart)
    wanted = model.mtp.draft([hidden[59:]], [3], apart, 3)
    assert model.mtp.draft([hidden[:59], hidden[59:]], [*IDS[1:60], 3], at_once, 3) == wanted
    assert at_once.length == apart.length == 59
    torch.testing.assert_close(at_once.kv.keys[:, :, :59], apart.kv.keys[:, :, :59])


def test_fill_refuses_tokens_that_do_not_match_the_rows(model):
    hidden = model.prefill(IDS[:3], model.new_state(64))
    with pytest.raises(ValueError, match="3 hidden states and 2 tokens"):
        model.mtp.fill(hidden, [1, 2], model.mtp.new_state(64))
    with pytest.raises(ValueError, match="hidden states and"):
        model.mtp.draft([hidden[:2], hidden[2:]], [1, 2], model.mtp.new_state(64), 3)


@pytest.mark.timing
@pytest.mark.usefixtures("one_thread")  # what the engine takes for a model of this size
def test_128_tokens_of_the_demo_shape_decode_in_under_6_seconds():
    model = random_model(SHAPE_DEMO, BF16, device="cpu")
    for _ in tries():
        state = model.new_state(512)
        model.prefill(IDS, state)
        model.step(1, state)
        start, token = time.process_time(), 1
        for _ in range(128):
            token = int(model.logits(model.step(token, state)).argmax())
        if (taken := time.process_time() - start) < 6.0:
            return
    pytest.fail(f"it took {taken:.1f} s")
