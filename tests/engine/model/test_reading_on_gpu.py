"""A GPU holds the bytes of the files after a load, though copies end after the next read."""

import math

import pytest
import torch

from engine.errors import CheckpointError
from engine.model import numbers, reading, streaming
from engine.model.layouts import StoredWeight
from engine.model.loading import load_model
from engine.model.packing import Launching, Packer
from engine.model.reading import read_stored
from engine.model.safetensors_header import StoredTensor
from engine.model.streaming import WeightStream
from engine.model.tensors import TensorSpec
from tests.engine.model.checkpoints import TINY, random_tensors, write_checkpoint
from tests.engine.model.layouts import CHOICES, write_layout
from tests.engine.model.test_layouts import matrices_of

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]

LATE = 200_000_000
"""Clocks that the device is busy before it copies: a tenth of a second."""


def test_pieces_wait_in_their_buffers_until_a_busy_device_has_copied_them(tmp_path):
    values = torch.randint(-(2**15), 2**15, (80 << 20,), dtype=torch.int16)
    path = tmp_path / "some.safetensors"
    path.write_bytes(b"head" + values.numpy().tobytes())
    stored = StoredTensor("norm.weight", path, "BF16", (len(values),), 4, 2 * len(values))
    one = StoredWeight(TensorSpec((len(values),), "small"), stored)
    torch.cuda._sleep(LATE)
    with WeightStream(stored.num_bytes, torch.device("cuda")) as stream:
        held = read_stored(stream, "norm.weight", one)
    assert torch.equal(held.view(torch.int16).cpu(), values)


@pytest.mark.parametrize("capability", [(9, 0), (12, 1)])
@pytest.mark.parametrize("layout", CHOICES)
def test_every_layout_is_held_with_the_bits_of_the_cpu(tmp_path, monkeypatch, layout, capability):
    folder = write_layout(tmp_path / "model", layout)
    want = load_model(folder, packer=Packer(Launching(capability)))
    monkeypatch.setattr(reading, "PIECE_BYTES", 1000)
    monkeypatch.setattr(streaming, "SLICE_BYTES", 300)
    torch.cuda._sleep(LATE)
    got = load_model(folder, device="cuda", packer=Packer(Launching(capability)))
    there = matrices_of(want)
    for name, matrix in matrices_of(got).items():
        for mine, other in zip(matrix.tensors(), there[name].tensors(), strict=True):
            assert torch.equal(mine.cpu().view(torch.uint8), other.view(torch.uint8)), name


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("name", ["layers.1.mlp.up_proj.weight", "layers.0.input_layernorm.weight"])
def test_a_plain_weight_that_is_no_finite_number_is_refused(tmp_path, monkeypatch, name, value):
    tensors = random_tensors(TINY)
    tensors[f"model.language_model.{name}"].view(-1)[-1] = value
    folder = write_checkpoint(tmp_path / "model", TINY, tensors=tensors)
    monkeypatch.setattr(numbers, "MOST_ON_A_CPU", 0)
    packer = Packer(Launching(torch.cuda.get_device_capability()))
    with pytest.raises(CheckpointError, match=f"{name}' holds a value that is not a finite number"):
        load_model(folder, device="cuda", packer=packer)
