"""What tests of every part share."""

import pytest
import torch


@pytest.fixture(scope="module")
def same_threads_afterwards():
    """Give the next module the threads that this one began with: an engine sets its own number."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def one_thread(same_threads_afterwards):
    """Compute on one thread, as engines of small models do."""
    torch.set_num_threads(1)
