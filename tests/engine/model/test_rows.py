"""A round multiplies plain a | b where they are used; many rows come to products as operands."""

from dataclasses import replace

import pytest
import torch

from engine.compute_path import ComputePath
from engine.model import packed
from engine.model.config import SHAPE_DEMO, hybrid_layers
from engine.model.decoder import Model
from engine.model.matrix import operands_for, product
from engine.model.mlp import feed_forward
from engine.model.norms import rms_norm
from engine.model.packing import Launching
from engine.model.random import random_model
from engine.model.rows import gates_product, plain_gates
from engine.model.weights import DeltaWeights, LayerWeights
from engine.profile import load_profiles
from kernels.common.operands import new_operands
from kernels.conv.gates_reference import gates_product_reference

SMALL = replace(SHAPE_DEMO, layer_kinds=hybrid_layers(4), num_mtp_layers=0)


def small_model(profile: str, capability: tuple[int, int]) -> Model:
    packer = ComputePath(Launching(capability)).new_packer()
    formats = load_profiles()[profile].formats
    return random_model(SMALL, formats, device="cpu", packer=packer)


def first_layer(profile: str, capability: tuple[int, int]) -> LayerWeights:
    return small_model(profile, capability).weights.layers[0]


@pytest.fixture(scope="module")
def mixer() -> DeltaWeights:
    found = first_layer("fp8", (9, 0)).mixer
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


@pytest.fixture
def seen(monkeypatch) -> list[int | None]:
    """The orders of the operands that products are given, None for rows alone."""
    orders: list[int | None] = []
    real = packed.skinny_linear

    def watched(x, weight, *, operands=None, **options):
        orders.append(None if operands is None else operands.order)
        return real(x, weight, operands=operands, **options)

    monkeypatch.setattr(packed, "skinny_linear", watched)
    return orders


@pytest.mark.parametrize(
    ("profile", "capability", "num_rows", "orders"),
    [
        ("nvfp4", (9, 0), 1, [32, 32]),
        ("nvfp4", (9, 0), 32, [32, 32]),
        ("nvfp4", (9, 0), 33, []),
        ("fp8", (9, 0), 16, [16, 16]),
        ("bf16", (9, 0), 16, [None, None]),
        ("nvfp4", (12, 1), 16, [None, None]),
    ],
)
def test_rows_come_as_operands_where_a_product_takes_them(
    seen, profile, capability, num_rows, orders
):
    mlp = first_layer(profile, capability).mlp
    rows = torch.randn((num_rows, SMALL.hidden_size), generator=torch.Generator().manual_seed(1))
    weight = torch.zeros(SMALL.hidden_size).bfloat16()
    ready = operands_for(mlp.gate, num_rows)
    normed = rms_norm(rows.bfloat16(), weight, 1e-6, operands=ready)
    fed = feed_forward(normed, mlp, operands=ready)
    assert seen == orders
    assert torch.equal(fed, feed_forward(normed, mlp))


@pytest.mark.parametrize("num_rows", [1, 3, 5])
def test_every_product_of_a_round_is_given_operands(seen, num_rows):
    """Behind norms, mixers and attention, of delta layers and of the attention layer."""
    model = small_model("nvfp4", (9, 0))
    hidden = model.decode(range(num_rows), model.new_state(num_rows))
    assert seen == [32] * 4 * SMALL.num_layers
    assert bool(hidden.isfinite().all())


def test_operands_in_the_order_of_another_format_are_left(seen):
    mlp = first_layer("fp8", (9, 0)).mlp
    x = torch.zeros((16, SMALL.hidden_size)).bfloat16()
    product(x, mlp.gate, new_operands(16, SMALL.hidden_size, 32, "cpu"))
    product(x, mlp.gate, new_operands(16, SMALL.hidden_size, 16, "cpu"))
    assert seen == [None, 16]
