"""Compaction moves accepted rows to their positions and nothing else."""

import pytest
import torch

from kernels.attention.compact import attention_compact


def stores() -> tuple[torch.Tensor, torch.Tensor]:
    keys = torch.arange(2 * 3 * 40 * 256).reshape(2, 3, 40, 256).remainder(251).bfloat16()
    return keys, -keys


def scalar(value: int) -> torch.Tensor:
    return torch.tensor([value], dtype=torch.int32)


def rows_of(*path: int) -> torch.Tensor:
    return torch.tensor([*path, *[0] * (32 - len(path))], dtype=torch.int32)


@pytest.mark.parametrize("path", [(0,), (0, 3), (0, 2, 5, 6, 31), tuple(range(32)), ()])
@pytest.mark.parametrize("advanced", [False, True])
def test_accepted_rows_take_the_slots_of_their_positions(path, advanced):
    keys, values = stores()
    before = keys.clone(), values.clone()
    start = 7 + (len(path) if advanced else 0)
    attention_compact(
        keys, values, scalar(start), scalar(len(path)), rows_of(*path), advanced=advanced
    )
    for now, was in zip((keys, values), before, strict=True):
        for to, row in enumerate(path):
            assert torch.equal(now[:, :, 7 + to], was[:, :, 7 + row])
        assert torch.equal(now[:, :, :7], was[:, :, :7])
        assert torch.equal(now[:, :, 7 + len(path) :], was[:, :, 7 + len(path) :])


def test_a_chain_moves_nothing():
    keys, values = stores()
    before = keys.clone()
    attention_compact(keys, values, scalar(3), scalar(9), rows_of(*range(9)))
    assert torch.equal(keys, before)
