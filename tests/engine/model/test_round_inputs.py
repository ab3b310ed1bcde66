"""The numbers of a round reach the device in one copy, and those of the next wait for theirs."""

from types import SimpleNamespace

import pytest
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


class Device:
    """A device whose work is counted: what was asked of it, and how much of that was waited for."""

    def __init__(self, inputs: RoundInputs) -> None:
        self.num_asked = 0
        self.waited: list[int] = []
        self._inputs = inputs
        for page in inputs._pages:
            page._has_left = self.moment()

    def moment(self) -> SimpleNamespace:
        moment = SimpleNamespace(at=0)
        moment.record = lambda: setattr(moment, "at", self.num_asked)
        moment.synchronize = lambda: self.waited.append(moment.at)
        return moment

    def write(self) -> None:
        self._inputs.write((5,), plan_chain(1), 40, 1, ())

    def send(self) -> None:
        self._inputs.send()
        self.num_asked += 1

    def compute(self) -> None:
        self.num_asked += 1


@pytest.fixture
def device():
    return Device(RoundInputs(torch.device("cpu")))


def test_a_page_that_may_be_leaving_is_not_written_and_later_work_is_not_waited_for(device):
    device.write()
    device.send()
    device.compute()
    device.write()  # the other page, which has never left
    assert device.waited == []
    device.send()
    device.compute()
    device.write()  # the first page again: its copy and one round were asked for before the second
    assert device.waited == [2]
    device.send()
    device.compute()
    device.write()
    assert device.waited == [2, 4]


def test_pages_that_have_left_are_written_at_once_until_they_leave_again(device):
    for _ in range(2):
        device.write()
        device.send()
    device._inputs.have_left()
    device.compute()
    device.write()
    assert device.waited == []
    device.send()
    device.write()
    device.send()
    device.write()
    assert device.waited == [4]
