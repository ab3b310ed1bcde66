"""Drafts are chosen from a part of the vocabulary, whose logits are the head's own."""

import pytest
import torch

from engine.model import draft_head, footprint
from engine.model.draft_head import trim_head
from engine.model.matrix import E4m3Row, logits_of
from engine.model.packing import HEAD, Launching, Packer
from kernels.linear.reference import e4m3_row_dequantise

VOCAB, WIDTH = 600, 128


@pytest.fixture(autouse=True)
def _small_vocabularies(monkeypatch):
    monkeypatch.setattr(draft_head, "NUM_DRAFT_IDS", 300)
    monkeypatch.setattr(draft_head, "NUM_LAST_IDS", 20)


def head(stored: str, vocab: int = VOCAB):
    values = torch.randn(vocab, WIDTH, generator=torch.Generator().manual_seed(1)).bfloat16()
    packer = Packer(Launching((9, 0)))
    if stored == "e4m3_row":
        codes, scales = values.to(torch.float8_e4m3fn), torch.linspace(0.5, 2.0, vocab)
        assert e4m3_row_dequantise(codes, scales).shape == values.shape
        packer.add(HEAD, E4m3Row(codes, scales))
    else:
        packer.add(HEAD, values)
    return packer.finish(values, tied=False)[HEAD]


@pytest.mark.parametrize("stored", ["bf16", "e4m3_row"])
def test_it_holds_the_first_and_the_last_ids_with_their_own_logits(stored):
    whole = head(stored)
    part = trim_head(whole)
    assert part.id_map.tolist() == [*range(280), *range(580, 600)]
    hidden = torch.randn(3, WIDTH, generator=torch.Generator().manual_seed(2)).bfloat16()
    wanted = logits_of(hidden, whole)[:, part.id_map.long()]
    assert torch.equal(logits_of(hidden, part.matrix), wanted)


def test_a_small_or_unpacked_head_serves_whole():
    small = head("bf16", 300)
    assert trim_head(small).matrix is small
    plain = torch.zeros(VOCAB, WIDTH).bfloat16()
    assert trim_head(plain).matrix is plain
    assert trim_head(plain).num_bytes == 0


@pytest.mark.parametrize("stored", ["bf16", "e4m3_row"])
def test_its_bytes_are_those_of_the_plan(stored, monkeypatch):
    monkeypatch.setattr(footprint, "NUM_DRAFT_IDS", 300)
    config = type("Config", (), {"vocab_size": VOCAB, "hidden_size": WIDTH})
    assert trim_head(head(stored)).num_bytes == footprint.draft_head_bytes(config, stored)
