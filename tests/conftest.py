"""How many threads compute is the process's: each file of tests leaves what it found."""

import pytest
import torch


@pytest.fixture(scope="module", autouse=True)
def same_threads_afterwards():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def one_thread(same_threads_afterwards):
    """What the engine takes for a model of the demo's size."""
    torch.set_num_threads(1)
