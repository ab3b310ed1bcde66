"""Random models behave like trained ones in size: activations near one, states that stay finite."""

import pytest
import torch

from engine.model.config import SHAPE_DEMO
from engine.model.matrix import expanded
from engine.model.random import random_model
from engine.profile import Formats
from kernels.common.compare import different_bits

FORMATS = {
    "bf16": Formats("bf16", "bf16", "bf16", "bf16", "bf16"),
    "fp8": Formats("fp8_block", "fp8_block", "fp8_block", "bf16", "fp8_block"),
    "nvfp4": Formats("nvfp4", "nvfp4", "nvfp4", "e4m3_row", "bf16"),
}
IDS = list(range(0, 3000, 20))


@pytest.mark.parametrize("name", FORMATS)
def test_activations_stay_near_one(name: str):
    model = random_model(SHAPE_DEMO, FORMATS[name], device="cpu")
    state = model.new_state(256)
    hidden = model.prefill(IDS, state)
    assert 0.8 < hidden.float().std().item() < 1.25
    assert 2.0 < model.logits(hidden[-1:]).std().item() < 4.0
    assert 0.01 < state.recurrent.std().item() < 10.0
    assert state.recurrent.isfinite().all()


def test_the_same_seed_gives_the_same_model_and_another_one_another():
    models = [random_model(SHAPE_DEMO, FORMATS["fp8"], device="cpu", seed=s) for s in (4, 4, 5)]
    gates = [expanded(model.weights.layers[0].mlp.gate) for model in models]
    assert torch.equal(gates[0], gates[1])
    assert not torch.equal(gates[0], gates[2])


def test_kept_codes_compute_what_expanded_ones_do():
    for formats in (FORMATS["fp8"], FORMATS["nvfp4"]):
        hidden = []
        for expand in (True, False):
            model = random_model(SHAPE_DEMO, formats, device="cpu", expand=expand)
            hidden.append(model.prefill(IDS[:70], model.new_state(128)))
        assert different_bits(hidden[0], hidden[1], "TD") is None
