"""A round multiplies plain a | b where they are used, and coded ones by a product of their own."""

from dataclasses import replace

import pytest
import torch

from engine.compute_path import ComputePath
from engine.model.config import SHAPE_DEMO, hybrid_layers
from engine.model.packing import Launching
from engine.model.random import random_model
from engine.model.rows import gates_product, plain_gates
from engine.model.weights import DeltaWeights
from engine.profile import load_profiles
from kernels.conv.gates_reference import gates_product_reference

SMALL = replace(SHAPE_DEMO, layer_kinds=hybrid_layers(4), num_mtp_layers=0)


@pytest.fixture(scope="module")
def mixer() -> DeltaWeights:
    packer = ComputePath(Launching((9, 0))).new_packer()
    model = random_model(SMALL, load_profiles()["fp8"].formats, device="cpu", packer=packer)
    found = model.weights.layers[0].mixer
    assert isinstance(found, DeltaWeights)
    return found


def test_plain_gates_are_a_over_b_and_their_product_that_of_the_round(mixer):
    weight = plain_gates(mixer)
    assert weight is not None
    rows = torch.randn((3, SMALL.hidden_size), generator=torch.Generator().manual_seed(1))
    want = gates_product(rows.bfloat16(), mixer)
    assert want.shape == (3, 2 * SMALL.num_value_heads)
    got = gates_product_reference(rows.bfloat16(), weight)
    torch.testing.assert_close(got, want, rtol=2**-6, atol=2**-8)


def test_gates_that_are_not_joined_or_not_plain_are_multiplied_apart(mixer):
    assert plain_gates(replace(mixer, b=mixer.z)) is None
    assert plain_gates(replace(mixer, a=mixer.qkv, b=mixer.z)) is None
    assert plain_gates(replace(mixer, a=mixer.a.expand(), b=mixer.b.expand())) is None
