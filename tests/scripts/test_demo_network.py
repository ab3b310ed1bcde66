"""The demo's network: training form against the token-by-token walk, quantisation, packing."""

import sys
from pathlib import Path

import numpy as np
import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from demo.decoding import Walker, greedy, load_weights  # noqa: E402
from demo.fp8 import dequantise, quantise  # noqa: E402
from demo.network import Shape, initial_weights, trunk  # noqa: E402
from demo.optimiser import orthogonalised  # noqa: E402
from demo.packing import Corpus, Packer, row_cuts  # noqa: E402
from demo.trainer import Plan, losses, rate_scale, rounded  # noqa: E402

PROFILE = ROOT / "profiles" / "demo"


def test_chunks_equal_single_steps_on_the_demo_weights():
    weights, shape = load_weights(PROFILE)
    ids = torch.randint(0, shape.vocab, (2, 128), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        whole = trunk(ids, weights, shape)
        walker = Walker(weights, shape, 2, 128)
        steps = torch.stack([walker.step(ids[:, i]) for i in range(128)], 1)
    torch.testing.assert_close(steps, whole, rtol=2e-3, atol=2e-3)


def test_the_chain_replay_commits_every_token_once():
    weights, shape = load_weights(PROFILE)
    reply = greedy(weights, shape, [[1, 2, 3]], stops=set(), budget=12)[0]
    assert (len(reply.ids), reply.ended) == (12, False)
    assert sum(reply.rounds) == 11
    assert max(reply.rounds) <= 4


def test_losses_reach_every_weight():
    shape = Shape(vocab=256, layers=4)
    weights = {n: v.requires_grad_() for n, v in initial_weights(shape).items()}
    ids = torch.randint(1, 256, (2, 64), dtype=torch.int32)
    trunk_loss, chain_loss = losses(ids, torch.ones(2, 64), rounded(weights, fp8=True), shape)
    (trunk_loss + chain_loss).backward()
    assert [n for n, v in weights.items() if v.grad is None] == []


def test_quantised_blocks_stay_within_an_eighth_of_a_step():
    weight = torch.randn(256, 384, generator=torch.Generator().manual_seed(1))
    codes, scale = quantise(weight)
    assert scale.shape == (2, 3)
    error = (dequantise(codes, scale) - weight).abs()
    assert bool((error <= weight.abs() / 14 + 2e-5).all())
    assert dequantise(*quantise(torch.zeros(128, 128))).abs().max() == 0


def test_orthogonalised_singular_values_are_near_one():
    values = torch.linalg.svdvals(orthogonalised(torch.randn(2, 64, 32)).float())
    assert float(values.min()) > 0.5
    assert float(values.max()) < 1.3


def test_row_cuts_never_overfill_and_lose_nothing():
    lengths = np.array([5, 7, 3, 20, 4])
    cuts = row_cuts(lengths, np.array([12]))
    assert cuts == [0, 2, 3, 4, 5]


def test_packed_rows_hold_whole_exchanges_with_their_weights():
    ids = np.arange(1, 31).astype(np.uint16)
    corpus = Corpus(ids, (ids % 2 == 0).astype(np.uint8), np.array([0, 10, 20, 30]), [ids[:3]])
    packer = Packer(corpus, "cpu", pad=0)
    rows, weight = packer.rows(np.array([2, 0, 1]), 24, 0.0)
    assert rows[0].tolist() == [*range(21, 31), *range(1, 11), 0, 0, 0, 0]
    assert weight[0, 1].item() == 1.0
    assert 0.09 < weight[0, 0].item() < 0.11
    assert weight[0, 20:].sum() == 0
    with_system, weight = packer.rows(np.array([1]), 24, 1.0)
    assert with_system[0, :4].tolist() == [1, 2, 3, 11]
    assert weight[0, :3].sum() == 0


def test_the_rate_warms_up_holds_and_decays_by_the_clock():
    plan = Plan(seconds=1)
    assert rate_scale(0, 0.0, plan) < 0.02
    assert rate_scale(500, 0.3, plan) == 1
    assert rate_scale(5000, 1.0, plan) == 0.02
