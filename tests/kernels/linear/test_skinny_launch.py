"""A launch is worked out from the device and the tile, and refused before it can go wrong."""

import types

import pytest
import torch

from kernels.linear import skinny_launch, skinny_maps
from kernels.linear.skinny import skinny_linear
from kernels.linear.tile import SkinnyProblem, SkinnyTile
from kernels.linear.tile_room import num_teams, shared_bytes
from kernels.linear.timed_weight import random_weight

TILE = SkinnyTile(2, 4, 2, 2, "shared", 1)
GATE_AND_UP = SkinnyProblem(34816, 5120, "nvfp4", 16)


@pytest.fixture
def gpu(monkeypatch):
    """Pretend to be a Hopper GPU of so many multiprocessors."""

    def pretend(num_sms):
        properties = types.SimpleNamespace(multi_processor_count=num_sms)
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda *_: properties)
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda *_: (9, 0))

    return pretend


def test_tiles_are_shared_among_the_multiprocessors_that_are_there(gpu):
    gpu(132)
    assert skinny_launch._sized_for(TILE, GATE_AND_UP, 0) == 132


def test_a_smaller_gpu_takes_a_second_wave_where_longer_shares_do_not_fit(gpu):
    gpu(8)
    assert shared_bytes(TILE, GATE_AND_UP, 8) > 232_448
    num_sms = skinny_launch._sized_for(TILE, GATE_AND_UP, 0)
    assert shared_bytes(TILE, GATE_AND_UP, num_sms) <= 232_448
    assert num_teams(TILE, GATE_AND_UP, num_sms) > num_teams(TILE, GATE_AND_UP, 8)


@pytest.mark.parametrize(
    "tile",
    [
        SkinnyTile(2, 4, 4, 4, "shared"),  # shared memory
        SkinnyTile(3, 2, 1, 2, "global"),  # no such cluster
        SkinnyTile(2, 4, 2, 2, "shared", 0),  # several groups, and nobody to finish them
        SkinnyTile(1, 5, 1, 2, "global"),  # warps
        SkinnyTile(1, 1, 1, 1, "global"),  # a ring that waits for itself
        SkinnyTile(1, 1, 1, 2, "global", 2),  # a finisher without a team
    ],
)
def test_an_impossible_tile_is_refused_before_the_launch(gpu, tile):
    gpu(132)
    with pytest.raises(ValueError, match=r"does not fit nvfp4 34816x5120 at 16 rows; take one of"):
        skinny_launch._sized_for(tile, GATE_AND_UP, 0)


def test_maps_tell_formats_apart_at_the_same_addresses(monkeypatch):
    """Codes of FP8 and of NVFP4 with twice the inputs have one shape and one element size."""
    monkeypatch.setattr(skinny_maps, "_maps", {})
    monkeypatch.setattr(skinny_maps, "byte_map", lambda *arguments: arguments)
    places = [types.SimpleNamespace(data_ptr=lambda at=at: at) for at in (16, 32)]
    for name, inputs in (("fp8_block", 256), ("nvfp4", 512)):
        weight = random_weight(256, inputs, name, "cpu", spread=True)
        monkeypatch.setattr(type(weight), "tensors", lambda self: tuple(places))
        codes, runs = skinny_maps.maps_for(SkinnyTile(1, 1, 1, 2, "shared"), weight, 1)
        assert (codes == runs) == (name == "fp8_block")


def test_a_box_is_a_step_of_some_tiles_of_both_halves_in_pieces_of_64_bytes(monkeypatch):
    monkeypatch.setattr(skinny_maps, "_maps", {})
    monkeypatch.setattr(skinny_maps, "byte_map", lambda *arguments: arguments[1:])
    four = random_weight(64, 512, "nvfp4", "cpu", spread=True)
    codes, runs = skinny_maps.maps_for(SkinnyTile(1, 1, 2, 2, "shared"), four, 2)
    assert codes == ((64, 32, 4, 2), (256, 64, 32 * 256), (64, 16, 1, 2))
    assert runs == ((512, 2, 2), (512, 2 * 512), (128, 1, 2))
    eight = random_weight(64, 512, "fp8_block", "cpu", spread=False)
    codes, _ = skinny_maps.maps_for(SkinnyTile(1, 1, 3, 2, "shared"), eight, 1)
    assert codes == ((64, 64, 8, 1), (512, 64, 64 * 512), (64, 48, 2, 1))


def test_boxes_of_a_streamed_pair_lie_over_8_rows_a_tile_of_both_halves(monkeypatch):
    monkeypatch.setattr(skinny_maps, "_maps", {})
    monkeypatch.setattr(skinny_maps, "byte_map", lambda *arguments: arguments[-1])
    weight, tile = (
        random_weight(64, 512, "nvfp4", "cpu", spread=True),
        SkinnyTile(1, 5, 17, 2, "streamed"),
    )
    apart, paired = (skinny_maps.maps_for(tile, weight, share) for share in (1, 2))
    assert apart == ((64, 64, 1, 1), (64, 16, 1, 1), (128, 17, 1))
    assert paired == ((64, 32, 1, 2), (64, 8, 1, 2), (128, 9, 2))


def test_what_an_output_cannot_take_is_refused():
    x = torch.zeros(1, 128, dtype=torch.bfloat16)
    weight = random_weight(32, 128, "bf16", "cpu", spread=False)
    residual = torch.zeros(1, 32, dtype=torch.bfloat16)
    with pytest.raises(ValueError, match="a residual for fp32 results"):
        skinny_linear(x, weight, residual=residual, out=torch.zeros(1, 32))
    half = torch.zeros(1, 16, dtype=torch.bfloat16)
    with pytest.raises(ValueError, match="a residual for a pair"):
        skinny_linear(x, weight, residual=half, paired=True, out=half.clone())
