"""The numbers of a round reach the device in one copy, and those of the next wait for theirs."""

import torch

from engine.model.round_state import RoundInputs
from kernels.common.tree import plan_chain, plan_tree


def held(inputs: RoundInputs) -> tuple:
    tree = inputs.tree
    scalars = (inputs.start, inputs.parity, inputs.num_pending, inputs.budget)
    return (
        inputs.row_ids[:3].tolist(), inputs.pending_rows[:3].tolist(), [*map(int, scalars)],
        tree.parents[:3].tolist(), tree.paths[2, :3].tolist(),
    )  # fmt: skip


def test_what_is_written_arrives_when_it_is_sent():
    inputs = RoundInputs(torch.device("cpu"))
    inputs.write((5, 6, 7), plan_chain(3), 40, 1, (0, 1), 9)
    assert held(inputs) == ([0, 0, 0], [0, 0, 0], [0, 0, 0, 0], [0, 0, 0], [0, 0, 0])
    inputs.send()
    first = ([5, 6, 7], [0, 1, 0], [40, 1, 2, 9], [-1, 0, 1], [0, 1, 2])
    assert held(inputs) == first
    inputs.write((8, 9), plan_tree((-1, 0, 0)), 42, 0, (), 7)  # while that round runs
    assert held(inputs) == first
    inputs.send()
    assert held(inputs) == ([8, 9, 0], [0, 0, 0], [42, 0, 0, 7], [-1, 0, 0], [0, 2, 0])


def test_what_was_written_and_not_sent_is_written_over():
    inputs = RoundInputs(torch.device("cpu"))
    inputs.write((5, 6, 7), plan_tree((-1, 0, 0)), 40, 1, (0, 1), 9)
    inputs.write((1,), plan_chain(3), 2, 0, (0,), 3)
    inputs.send()
    assert held(inputs) == ([1, 0, 0], [0, 0, 0], [2, 0, 1, 3], [-1, 0, 1], [0, 1, 2])
