"""Rows behind some layers, kept for a drafter by position."""

import pytest
import torch

from engine.compute_path import HELD_FORMATS
from engine.model.config import SHAPE_DEMO
from engine.model.packing import Launching, Packer
from engine.model.random import random_model
from engine.model.taps import Taps
from engine.profile import load_profiles

IDS = [7 * one % 300 for one in range(70)]


def filled(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.bfloat16)[:, None].expand(-1, 2)


def taps_after(*kept: tuple[int, list[int]]) -> Taps:
    """Taps that kept rows, each pair a start and the numbers that they hold."""
    taps = Taps((1, 4), 2, 8, torch.device("cpu"))
    for start, values in kept:
        taps.write(1, filled(*values))
        taps.write(2, filled(*(99 for _ in values)))  # of no interest
        taps.write(4, filled(*(-one for one in values)))
        taps.keep(start, taps.copy(len(values)))
    return taps


def test_outputs_stand_side_by_side():
    assert taps_after((0, [3, 4])).take(0, 2).tolist() == [[3, 3, -3, -3], [4, 4, -4, -4]]


def test_pieces_are_joined_and_forgotten():
    taps = taps_after((5, [5, 6]), (7, [7]), (8, [8, 9]))
    assert taps.take(6, 3)[:, 0].tolist() == [6, 7, 8]
    with pytest.raises(ValueError, match="positions from 8 on"):
        taps.take(8, 1)


def test_a_position_that_is_read_again_stands_for_the_newer_text():
    taps = taps_after((0, [1, 2, 3, 4]), (2, [30]), (3, [40, 50]))
    assert taps.take(0, 5)[:, 0].tolist() == [1, 2, 30, 40, 50]


def test_rows_of_a_path_are_kept_in_its_order():
    taps = taps_after((0, [1, 2, 3, 4]))
    taps.keep(4, taps.copy(4)[[0, 3]])
    assert taps.take(0, 6)[:, 0].tolist() == [1, 2, 3, 4, 1, 4]


def test_a_gap_is_an_error():
    with pytest.raises(ValueError, match="positions from 2 on were not kept"):
        taps_after((0, [1, 2]), (3, [4])).take(0, 4)


def models():
    packer = Packer(Launching((9, 0)))
    yield random_model(SHAPE_DEMO, HELD_FORMATS, device="cpu", seed=3)
    formats = load_profiles()["fp8"].formats
    yield random_model(SHAPE_DEMO, formats, device="cpu", seed=3, packer=packer)


@pytest.mark.parametrize("model", models(), ids=["reference", "kernels"])
def test_tapped_rows_are_the_stream_and_change_nothing(model):
    """The last layer's output is what the final norm reads; a tap changes no bit."""
    state = model.new_state(128)
    plain = [model.prefill(IDS, state), model.step(5, state), model.decode([6, 7], state)]
    last = SHAPE_DEMO.num_layers - 1
    taps = model.tap((0, last))
    state = model.new_state(128)
    got = [model.prefill(IDS, state), model.step(5, state), model.decode([6, 7], state)]
    for one, other in zip(plain, got, strict=True):
        assert torch.equal(one, other)
    rows = taps.take(0, len(IDS) + 3)
    width = SHAPE_DEMO.hidden_size
    assert not torch.equal(rows[:, :width], rows[:, width:])
    stream = rows[:, width:].float()
    normed = stream * (stream.square().mean(-1, keepdim=True) + 1e-6).rsqrt()
    wanted = normed * (1 + model.weights.norm.float())
    torch.testing.assert_close(torch.cat(got).float(), wanted, rtol=2**-7, atol=2**-7)
