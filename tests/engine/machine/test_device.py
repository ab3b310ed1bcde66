"""The device that a setting means, on a machine with a GPU and on one without."""

import pytest

from engine.errors import SettingsError
from engine.machine.device import choose_device


@pytest.mark.parametrize(
    ("wanted", "has_gpu", "device"),
    [
        ("auto", True, "cuda"),
        ("auto", False, "cpu"),
        ("cpu", True, "cpu"),
        ("cpu", False, "cpu"),
        ("cuda", True, "cuda"),
    ],
)
def test_auto_is_the_gpu_where_there_is_one(monkeypatch, wanted, has_gpu, device):
    monkeypatch.setattr("torch.cuda.is_available", lambda: has_gpu)
    assert choose_device(wanted) == device


def test_a_gpu_that_is_not_there_is_refused_in_a_sentence(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(SettingsError, match="torch finds no GPU. Set it to 'auto' or 'cpu'"):
        choose_device("cuda")
