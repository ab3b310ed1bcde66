"""A GPU quantises as a CPU does: the same roundings, and losses that are alike."""

import pytest
import torch

from engine.model.rope import RopeTable
from engine.quantize.grid import places
from engine.quantize.layer import quantise_layer
from engine.quantize.methods import METHODS
from tests.engine.quantize.test_layer import (
    CONFIG,
    LAYERS,
    calibration_ids,
    rows_of,
    tensors_of,
)  # fmt: skip

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]


def test_rounding_has_the_same_bits():
    eighths = torch.arange(-80, 81) / 8
    x = torch.cat((eighths, torch.nextafter(eighths, torch.tensor(9.0)), torch.randn(4096) * 4))
    assert torch.equal(places(x.cuda()).cpu(), places(x))


@pytest.mark.parametrize("place", [LAYERS[0], LAYERS[3]], ids=["delta", "attention"])
@pytest.mark.parametrize("method", METHODS)
def test_a_layer_loses_as_much(method, place):
    prefix, kind = place
    shares = []
    for name in ("cpu", "cuda"):
        device = torch.device(name)
        tensors = {key: one.to(device) for key, one in tensors_of(prefix).items()}
        rows = [one.to(device) for one in rows_of(calibration_ids())]
        if method == "nearest":
            rows = []
        rope = RopeTable(CONFIG, device)
        found = quantise_layer(CONFIG, prefix, kind, tensors, rows, method=method, rope=rope)
        shares.append([loss.output or loss.weight for _, loss in found.values()])
    cpu, cuda = (torch.tensor(one) for one in shares)
    assert ((cuda / cpu) - 1).abs().max() < 0.05
