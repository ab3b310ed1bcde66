"""The draft head against one composed of transformers' own layers."""

import torch
from safetensors.torch import load_file

from engine.model.loading import load_model
from tests.oracle.configs import CONFIGS

MARGIN = 0.25
"""Rows whose best two logits are closer may go either way; their standard deviation is near 3."""


def test_the_head_proposes_what_transformers_layers_propose(made):
    name = next(name for name, job in CONFIGS.items() if job.get("mtp"))
    model, oracle = load_model(made[name]), load_file(made[name] / "oracle.safetensors")
    assert model.mtp is not None
    ids, hidden = oracle["ids"].tolist(), oracle["hidden"]
    state = model.mtp.new_state(len(ids))
    proposals = []
    for row in range(len(ids) - 1):
        proposals += model.mtp.draft([hidden[row : row + 1]], ids[row + 1 : row + 2], state, 1)
        model.mtp.fill(hidden[row : row + 1], ids[row + 1 : row + 2], state)
    logits = oracle["draft"].float()
    best = logits.topk(2, -1).values
    clear = best[:, 0] - best[:, 1] > MARGIN
    assert clear.float().mean() > 0.7
    assert torch.equal(torch.tensor(proposals)[clear], logits.argmax(-1)[clear])
