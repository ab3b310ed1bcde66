"""What a walk keeps at once, and what it refuses, in sentences."""

import dataclasses
import itertools

import pytest
import torch

from kernels.common.round import MAX_ROWS
from kernels.common.tree import MAX_KEPT, depth_first, plan_tree
from kernels.delta import walk
from kernels.delta.fold import delta_fold
from kernels.delta.gate import OutputGate, expect_gate
from kernels.delta.problems import bush
from kernels.delta.record import DeltaRecord
from kernels.delta.tile import fits, most_kept
from kernels.delta.walk import delta_walk

HEADS = {"key_heads": 2, "value_heads": 6, "key_dim": 32, "value_dim": 16}


def arguments(num_rows: int = 3) -> dict:
    record = DeltaRecord.allocate(1, channels=8, **HEADS, device="cpu")
    rows, one = torch.zeros(MAX_ROWS, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    return {
        "q": torch.zeros(num_rows, 2, 32), "v": torch.zeros(num_rows, 6, 16).bfloat16(),
        "beta": torch.zeros(num_rows, 6), "state": torch.zeros(6, 32, 16),
        "record": record.layer(0), "parity": one, "num_pending": one, "pending_rows": rows,
        "saves": rows - 1, "restores": rows - 1, "out": torch.zeros(num_rows, 6, 16).bfloat16(),
    }  # fmt: skip


def all_trees(num_rows: int):
    """Every tree of so many rows, in any order that has parents first."""
    return itertools.product([-1], *(range(row) for row in range(1, num_rows)))


def kept_by(parents) -> int:
    order = depth_first(parents)
    place = {row: index for index, row in enumerate(order)}
    return 1 + max(plan_tree([-1, *(place[parents[row]] for row in order[1:])]).saves)


@pytest.mark.parametrize("num_rows", range(1, 9))
def test_most_kept_is_what_the_hungriest_tree_keeps(num_rows):
    assert max(map(kept_by, all_trees(num_rows))) == most_kept(num_rows)


def test_a_bush_keeps_the_most_of_all_trees_and_none_more_than_the_plan_allows():
    for num_rows in (3, 7, 15, 31):
        assert 1 + max(bush(num_rows).saves) == most_kept(num_rows)
    assert most_kept(MAX_ROWS) <= MAX_KEPT


def test_heads_of_whole_tiles_fit():
    assert [dim for dim in range(1, 200) if fits(dim, 16)] == [32, 64, 96, 128]
    assert [dim for dim in range(1, 50) if fits(32, dim)] == [16, 32, 48]


def test_arguments_that_agree_are_taken():
    delta_walk(**arguments())


@pytest.mark.parametrize(
    ("name", "wrong", "sentence"),
    [
        ("q", torch.zeros(3, 4, 32), r"divide among G = 4 key heads"),
        ("q", torch.zeros(3, 2, 64), r"state must be \[H, D, E\] = \[6, 64, 16\]"),
        ("v", torch.zeros(3, 6, 16), r"v must be bfloat16 \[T, H, E\], got float32"),
        ("beta", torch.zeros(4, 6), r"beta must be \[T, H\] = \[3, 6\], got \[4, 6\]"),
        ("out", torch.zeros(3, 6, 8).bfloat16(), r"out must be \[T, H, E\]"),
        ("saves", torch.zeros(3, dtype=torch.int32), r"saves must be \[32\]"),
        ("parity", torch.zeros(2, dtype=torch.int32), r"parity must be \[1\] = \[1\], got \[2\]"),
        ("num_pending", torch.zeros(0, dtype=torch.int32), r"num_pending must be \[1\] = \[1\]"),
        ("pending_rows", torch.zeros(32), r"pending_rows must be int32"),
        ("state", torch.zeros(6, 32, 32)[:, :, ::2], r"must have stride 1 along E"),
        ("state", torch.zeros(6, 64, 16)[:, ::2], r"state must be contiguous, got strides"),
    ],
)
def test_a_wrong_argument_is_refused_in_a_sentence(name, wrong, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        delta_walk(**arguments() | {name: wrong})


@pytest.mark.usefixtures("on_gpu")
@pytest.mark.parametrize("name", ["q", "v", "state", "out"])
def test_rows_that_begin_between_two_loads_of_16_bytes_are_refused(name, shifted):
    given = arguments()
    with pytest.raises(ValueError, match=rf"{name} starts at 0x\w+, expected a multiple of 16 "):
        delta_walk(**given | {name: shifted(given[name])})


@pytest.mark.parametrize(
    ("z", "weight", "sentence"),
    [
        (torch.zeros(3, 6, 8), torch.zeros(16), r"gate.z must be bfloat16"),
        (torch.zeros(3, 5, 16).bfloat16(), torch.zeros(16), r"gate.z must be \[T, H, E\]"),
        (torch.zeros(3, 6, 16).bfloat16(), torch.zeros(8), r"gate.weight must be \[E\] = \[16\]"),
        (torch.zeros(3, 12, 16).bfloat16()[:, ::2], torch.zeros(16), r"heads side by side"),
        (torch.zeros(3, 100).bfloat16()[:, 4:].view(3, 6, 16), torch.zeros(16), r"16 bytes align"),
        (torch.zeros(3, 104).bfloat16()[:, 4:100].view(3, 6, 16), torch.zeros(16), r"16 bytes al"),
    ],
)  # fmt: skip
def test_a_wrong_gate_is_refused_in_a_sentence(z, weight, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        delta_walk(**arguments(), gate=OutputGate(z, weight, 1e-6))


def test_a_part_of_wider_rows_is_a_gate():
    z = torch.zeros(3, 104).bfloat16()[:, 8:].view(3, 6, 16)
    delta_walk(**arguments(), gate=OutputGate(z, torch.zeros(16), 1e-6))


@pytest.mark.parametrize("num_rows", [0, 33])
def test_other_row_counts_are_refused(num_rows):
    with pytest.raises(ValueError, match=rf"got T = {num_rows} rows, expected 1 to 32; call"):
        delta_walk(**arguments(num_rows))


def test_a_record_of_other_rows_is_refused():
    held = arguments()
    record = held["record"]
    short = {name: getattr(record, name)[:, :16] for name in ("raw", "k", "u", "decay")}
    held["record"] = DeltaRecord(**short)
    with pytest.raises(ValueError, match=r"record.k must be .* = \[2, 32, 2, 32\], got \[2, 16, "):
        delta_walk(**held)


def test_heads_that_fill_no_tile_are_refused_before_a_launch(monkeypatch):
    axes = walk.Axes("delta_walk")
    axes.tensor("state", torch.zeros(1, 48, 16), "HDE", (torch.float32,), "")
    with pytest.raises(ValueError, match=r"no tile for heads of D = 48 keys and E = 16 values"):
        walk.expect_tile("delta_walk", axes)


def test_a_fold_wants_the_record_of_all_layers():
    record = DeltaRecord.allocate(2, channels=8, **HEADS, device="cpu")
    held = arguments()
    pending = (held["parity"], held["num_pending"], held["pending_rows"])
    state = torch.zeros(2, 6, 32, 16)
    delta_fold(state, record, *pending)
    with pytest.raises(ValueError, match=r"record.u must be \[L, 2, 32, H, E\] = \[2"):
        delta_fold(state, dataclasses.replace(record, u=record.u[:1]), *pending)


def test_a_layer_of_a_record_shares_its_memory():
    record = DeltaRecord.allocate(2, channels=8, **HEADS, device="cpu")
    record.layer(1).u.fill_(3.0)
    assert bool((record.u[1] == 3.0).all())
    assert bool((record.u[0] == 0.0).all())
    assert record.raw.shape == (2, 2, 32, 8)


def test_heads_wider_than_a_cluster_are_walked_without_a_gate():
    axes = walk.Axes("delta_walk")
    z, weight = torch.zeros(1, 2, 144).bfloat16(), torch.zeros(144)
    with pytest.raises(ValueError, match=r"E = 144 values came with a gate, which takes up to 128"):
        expect_gate(axes, "delta_walk", OutputGate(z, weight, 1e-6), z)
