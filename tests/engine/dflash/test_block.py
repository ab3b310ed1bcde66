"""A block's candidates are those of the definition; its context is kept as if read at once."""

import math
import threading
from dataclasses import replace

import pytest
import torch

from engine.compute_path import HELD_FORMATS
from engine.dflash.attach import attach_dflash
from engine.dflash.checkpoint import open_dflash
from engine.draft.dflash import likeliest, walk
from engine.errors import CheckpointError, RequestError
from engine.model.config import SHAPE_DEMO
from engine.model.draft_head import DraftHead
from engine.model.packing import Launching, Packer
from engine.model.random import random_model
from engine.profile import Formats
from tests.engine.dflash.definition import block_scores, followed
from tests.engine.dflash.drafters import DEMO_DRAFTER, dflash_values, write_dflash

IDS = [(7 * one + one * one) % 300 for one in range(150)]
NEAR = 2**-7
MOVED = 0.1
"""By how much BF16 may move a score; scores reach 15."""


@pytest.fixture(scope="module")
def model():
    return random_model(SHAPE_DEMO, HELD_FORMATS, device="cpu", seed=3)


def attached(model, folder, config=DEMO_DRAFTER, *, packer=None, stored="bf16", tensors=None):
    write_dflash(folder, config, tensors=tensors)
    return attach_dflash(
        model, open_dflash(folder, SHAPE_DEMO), on_progress=None, cancel=threading.Event(),
        packer=packer, stored=stored,
    )  # fmt: skip


def read(model, source, num_tokens: int) -> torch.Tensor:
    """What the target leaves behind its layers for the first tokens."""
    model.prefill(IDS[:num_tokens], model.new_state(256))
    return source.taps.take(0, num_tokens)


def lattice_of(source, tapped: torch.Tensor, token_id: int):
    state = source.drafter.new_state(256)
    source.drafter.fill(tapped, state)
    return source.drafter.propose(token_id, state)


WIDER = replace(DEMO_DRAFTER, block_size=16, conv_taps=3, num_layers=1)


@pytest.mark.parametrize(
    ("config", "num_tokens"),
    [
        (DEMO_DRAFTER, 1),
        (DEMO_DRAFTER, 41),
        (DEMO_DRAFTER, 47),
        (DEMO_DRAFTER, 150),
        (WIDER, 90),
    ],
    ids=["first", "within", "edge", "beyond", "block of 16"],
)
def test_candidates_and_scores_are_the_definitions(tmp_path, model, config, num_tokens):
    """Also with contexts shorter than the window, and longer: each row sees its own part."""
    values = dflash_values(config)
    source = attached(model, tmp_path / "drafter", config, tensors=values)
    tapped = read(model, source, num_tokens)
    lattice = lattice_of(source, tapped, IDS[num_tokens % 150])
    logits, projected = block_scores(
        config, values, model.weights.embedding, model.weights.head, tapped, IDS[num_tokens % 150]
    )
    assert (len(lattice.ids), len(lattice.ids[0])) == (config.block_size - 1, 16)
    token_id, taken = IDS[num_tokens % 150], walk(lattice, 31)
    assert len(taken) == config.block_size - 1
    for place, (ids, scores) in enumerate(zip(lattice.ids, lattice.scores, strict=True)):
        # bf16 moves logits of 3 by hundredths: those of the last candidates may change places
        ranked = logits[place].topk(20)
        assert set(ids) <= set(ranked.indices.tolist())
        assert len(set(ids)) == 16
        assert len(set(ids) & set(ranked.indices[:16].tolist())) >= 14
        before = lattice.ids[place - 1] if place else [token_id] * 16
        wanted = torch.stack(
            [logits[place][ids] + followed(values, projected[place], one, ids) for one in before]
        )
        torch.testing.assert_close(torch.tensor(scores).double(), wanted, rtol=0.0, atol=MOVED)
        behind = logits[place][ids] + followed(values, projected[place], token_id, ids)
        token_id = taken[place]
        assert behind[ids.index(token_id)] >= behind.max() - 2 * MOVED


def test_the_window_hides_what_is_too_far_and_nothing_else(tmp_path, model):
    """Other rows at positions that no row of the block sees change no bit; nearer ones do."""
    source = attached(model, tmp_path / "drafter")
    tapped = read(model, source, 100)
    wanted = lattice_of(source, tapped, 5)
    first_seen = 100 - (DEMO_DRAFTER.window - 1)  # by the block's first row
    far, near = tapped.clone(), tapped.clone()
    far[:first_seen] = 3.0
    near[: first_seen + 1] = 3.0
    assert lattice_of(source, far, 5) == wanted
    assert lattice_of(source, near, 5) != wanted


def test_the_context_is_the_same_filled_piece_by_piece_or_at_once(tmp_path, model):
    source = attached(model, tmp_path / "drafter")
    tapped = read(model, source, 100)
    drafter = source.drafter
    fresh, grown = drafter.new_state(256), drafter.new_state(256)
    drafter.fill(tapped, fresh)
    drafter.fill(tapped[:40], grown)
    for row in range(40, 100, 3):
        drafter.propose(IDS[row], grown)
        drafter.fill(tapped[row : row + 3], grown)
    assert fresh.length == grown.length == 100
    for one, other in ((fresh.kv.keys, grown.kv.keys), (fresh.kv.values, grown.kv.values)):
        torch.testing.assert_close(one[:, :, :100], other[:, :, :100], rtol=NEAR, atol=NEAR)
    assert walk(drafter.propose(5, fresh), 7) == walk(drafter.propose(5, grown), 7)


def test_a_block_leaves_its_context_as_it_was(tmp_path, model):
    source = attached(model, tmp_path / "drafter")
    drafter, state = source.drafter, source.drafter.new_state(64)
    drafter.fill(read(model, source, 30), state)
    before = state.kv.keys[:, :, :30].clone()
    first = drafter.propose(3, state)
    assert state.length == 30
    assert torch.equal(state.kv.keys[:, :, :30], before)
    assert drafter.propose(3, state) == first
    assert drafter.propose(4, state) != first
    state.truncate(7)
    with pytest.raises(ValueError, match="not within"):
        state.truncate(8)


def test_positions_beyond_those_reserved_are_refused(tmp_path, model):
    source = attached(model, tmp_path / "drafter")
    state = source.drafter.new_state(20)
    source.drafter.fill(read(model, source, 20), state)
    source.drafter.propose(3, state)  # a block may begin at the last position
    with pytest.raises(RequestError, match="were reserved"):
        source.drafter.fill(read(model, source, 1), state)


@pytest.mark.parametrize(
    "name", ["fc.weight", "norm.weight", "candidate_selector.successor_codebook"]
)
def test_weights_that_are_no_numbers_are_refused_by_name(tmp_path, model, name):
    values = dflash_values()
    values[name] = torch.full_like(values[name], math.nan)
    with pytest.raises(CheckpointError, match=f"'{name}' holds a value that is not a finite"):
        attached(model, tmp_path / "drafter", tensors=values)


@pytest.mark.parametrize("name", ["fc.weight", "candidate_selector.successor_codebook"])
def test_weights_so_large_that_scores_are_no_numbers_propose_nothing(tmp_path, model, name):
    values = dflash_values()
    values[name] = torch.full_like(values[name], 3e38)
    source = attached(model, tmp_path / "drafter", tensors=values)
    lattice = lattice_of(source, read(model, source, 9), 5)
    assert walk(lattice, 7) == []
    assert likeliest(lattice, 7) == ([], [])


def test_a_head_over_some_ids_proposes_those_with_their_own_codes(tmp_path, model):
    values = dflash_values()
    source = attached(model, tmp_path / "drafter", tensors=values)
    tapped = read(model, source, 30)
    kept = torch.cat((torch.arange(0, 900, 3), torch.arange(6000, 6144)))
    source.drafter._head = DraftHead(model.weights.head[kept], kept.int())
    lattice = lattice_of(source, tapped, 5)
    logits, projected = block_scores(
        DEMO_DRAFTER, values, model.weights.embedding, model.weights.head, tapped, 5
    )
    assert {one for ids in lattice.ids for one in ids} <= set(kept.tolist())
    for place, (ids, scores) in enumerate(zip(lattice.ids, lattice.scores, strict=True)):
        least = logits[place][kept].topk(18).values[-1]
        assert logits[place][ids].min() >= least
        before = lattice.ids[place - 1] if place else [5] * 16
        wanted = torch.stack(
            [logits[place][ids] + followed(values, projected[place], one, ids) for one in before]
        )
        torch.testing.assert_close(torch.tensor(scores).double(), wanted, rtol=0.0, atol=MOVED)


@pytest.mark.parametrize("stored", ["bf16", "nvfp4"])
def test_packed_weights_propose_nearly_the_same(tmp_path, model, stored):
    """On kernels: the same in BF16; NVFP4 moves scores by its rounding, as far as it may."""
    formats = Formats("fp8_block", "fp8_block", "fp8_block", "bf16", "bf16")
    packed = random_model(
        SHAPE_DEMO, formats, device="cpu", seed=3, packer=Packer(Launching((9, 0)))
    )
    values = dflash_values()
    plain = attached(model, tmp_path / "plain", tensors=values)
    source = attached(
        packed, tmp_path / "packed", tensors=values, packer=Packer(Launching((9, 0))), stored=stored
    )
    tapped = read(model, plain, 60)
    state = source.drafter.new_state(256)
    source.drafter.fill(tapped, state)
    # the same head and embedding: only the drafter's own weights differ
    source.drafter._embedding, source.drafter._head = plain.drafter._embedding, plain.drafter._head
    got, wanted = source.drafter.propose(5, state), lattice_of(plain, tapped, 5)
    if stored == "bf16":
        assert walk(got, 7) == walk(wanted, 7)
        common = [len(set(a) & set(b)) for a, b in zip(got.ids, wanted.ids, strict=True)]
        assert min(common) >= 14
        return
    assert source.drafter.weight_bytes < 0.7 * plain.drafter.weight_bytes
    assert got.ids != wanted.ids
    common = [len(set(a) & set(b)) for a, b in zip(got.ids, wanted.ids, strict=True)]
    assert sum(common) > 7 * 16 // 2
