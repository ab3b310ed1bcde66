"""A chunk of prefill is computed with more rows than it has tokens, and those leave nothing."""

import pytest
import torch

from engine.graph_classes import CHUNK_ROWS
from engine.model import kernel_model
from engine.model.chunk import CHUNK_TOKENS_ON_KERNELS, num_rows_for
from engine.model.config import SHAPE_DEMO
from engine.model.packing import Launching, Packer
from engine.model.random import random_model
from engine.profile import Formats

IDS = [11 * one % 300 for one in range(90)]
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


@pytest.fixture(scope="module", params=DEVICES)
def model(request):
    capability = torch.cuda.get_device_capability() if request.param == "cuda" else (9, 0)
    packer = Packer(Launching(capability))
    formats = Formats("nvfp4", "fp8_block", "e4m3_row", "e4m3_row", "nvfp4")
    return random_model(SHAPE_DEMO, formats, device=request.param, packer=packer)


def test_a_chunk_has_the_fewest_rows_that_are_captured():
    sizes = {one: num_rows_for(one) for one in (1, 64, 65, 130, 256, 257, 700, 1024)}
    assert sizes == {1: 64, 64: 64, 65: 128, 130: 192, 256: 256, 257: 384, 700: 768, 1024: 1024}
    assert CHUNK_ROWS[-1] == CHUNK_TOKENS_ON_KERNELS
    assert all(one % 64 == 0 for one in CHUNK_ROWS)


def test_padding_leaves_no_trace_in_the_state(model, monkeypatch):
    padded, exact = model.new_state(256), model.new_state(256)
    rows = model.prefill(IDS, padded)
    monkeypatch.setattr(kernel_model, "num_rows_for", lambda num_tokens: num_tokens)
    alone = model.prefill(IDS, exact)
    # products of another number of rows may differ in their last bits
    torch.testing.assert_close(rows, alone, rtol=2**-4, atol=2**-4)
    torch.testing.assert_close(padded.recurrent, exact.recurrent, rtol=2**-4, atol=2**-4)
    torch.testing.assert_close(padded.tails, exact.tails, rtol=2**-4, atol=2**-4)
    assert padded.length == exact.length == 90


def test_what_lies_behind_the_text_is_never_read(model):
    clean, poisoned = model.new_state(256), model.new_state(256)
    for state in (clean, poisoned):
        model.prefill(IDS, state)
    poisoned.kv.keys[:, :, 90:] = torch.nan
    poisoned.kv.values[:, :, 90:] = torch.nan
    assert torch.equal(model.prefill(IDS[:7], poisoned), model.prefill(IDS[:7], clean))
    assert torch.equal(model.step(5, poisoned), model.step(5, clean))


def test_a_chunk_at_the_very_end_of_a_conversation_writes_nothing_behind_it(model):
    state = model.new_state(100)
    model.prefill(IDS, state)
    rows = model.prefill(IDS[:10], state)  # 64 rows, room for 10
    assert state.length == 100
    assert bool(rows.isfinite().all())


def test_the_same_chunks_have_the_same_bits(model):
    first, again = model.new_state(256), model.new_state(256)
    assert torch.equal(model.prefill(IDS, first), model.prefill(IDS, again))
    assert torch.equal(first.recurrent, again.recurrent)


def test_a_chunk_longer_than_the_largest_graph_is_refused(model):
    with pytest.raises(ValueError, match="chunk_tokens is 2048, not a multiple of 64 up to 1024"):
        model.prefill(IDS, model.new_state(256), chunk_tokens=2048)
