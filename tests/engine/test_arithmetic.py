"""Whatever decides a bit beside the weights stands in the name of the arithmetic."""

import pytest
import torch

from engine.arithmetic import arithmetic_id
from engine.model.rows import ARITHMETIC
from kernels.attention.kv_codes import KvScales

SCALES = KvScales(torch.ones(2, 1), torch.ones(2, 1))


def test_layers_by_kernels_are_named_beside_their_products_and_the_reference_alone():
    by_kernels, reference = arithmetic_id("cpu", "linear-9: some"), arithmetic_id("cpu")
    assert by_kernels.startswith(f"{ARITHMETIC} torch-{torch.__version__} cpu ")
    assert by_kernels.endswith(" linear-9: some")
    assert reference.startswith(f"reference-1 torch-{torch.__version__} cpu ")
    assert ARITHMETIC not in reference


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("torch.__version__", "2.9.9"),
        ("torch.get_num_threads", lambda: 63),
        ("torch.backends.cpu.get_cpu_capability", lambda: "Z80"),
    ],
)
def test_another_library_another_chip_or_other_threads_are_another_name(monkeypatch, place, value):
    before = arithmetic_id("cpu")
    monkeypatch.setattr(place, value)
    assert arithmetic_id("cpu") != before


def test_a_gpu_is_named_by_itself(monkeypatch):
    monkeypatch.setattr("torch.cuda.get_device_name", lambda: "NVIDIA GB10")
    assert " cuda NVIDIA GB10 " in arithmetic_id("cuda", "linear-9: some")


def test_scales_of_keys_and_values_are_a_part_of_it():
    other = KvScales(SCALES.keys * 2, SCALES.values)
    names = {arithmetic_id("cpu", scales=one) for one in (None, SCALES, other)}
    assert len(names) == 3
    assert all(one.startswith(arithmetic_id("cpu")) for one in names)
