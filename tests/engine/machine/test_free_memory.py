"""What can be had on a device: of one memory for both what Linux says, else what CUDA says."""

import pytest
import torch

from engine.machine import free_memory
from engine.machine.free_memory import (
    available_bytes,
    is_refused,
    no_memory_left,
    shares_memory,
)
from tests.fakes.spark import FREE_OF_CUDA, be_a_spark

REFUSED = torch.OutOfMemoryError(
    "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 119.68 GiB"
)


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """Linux with 100 GB that can be had: ``machine(group files)`` within a control group."""
    monkeypatch.setattr(free_memory, "_meminfo_bytes", lambda: 100 * 10**9)
    monkeypatch.setattr(free_memory, "CGROUP", tmp_path)

    def write(**files):
        for name, text in files.items():
            (tmp_path / name.replace("_", ".")).write_text(text)

    return write


def test_page_cache_can_be_had_where_gpu_and_host_share_one_memory(machine, monkeypatch):
    be_a_spark(monkeypatch)
    assert shares_memory("cuda")
    assert available_bytes("cuda") == available_bytes("cpu") == 100 * 10**9


def test_a_gpu_with_memory_of_its_own_has_what_its_driver_says(machine, monkeypatch):
    be_a_spark(monkeypatch, integrated=0)
    assert available_bytes("cuda") == FREE_OF_CUDA


def test_files_that_a_container_has_read_make_room(machine):
    machine(memory_max="64000000000\n", memory_current="50000000000\n")
    assert available_bytes("cpu") == 14 * 10**9
    machine(memory_stat="anon 9000000000\ninactive_file 40000000000\n")
    assert available_bytes("cpu") == 54 * 10**9
    machine(memory_max="max\n")
    assert available_bytes("cpu") == 100 * 10**9


@pytest.mark.parametrize("integrated", [0, 1])
def test_memory_that_is_refused_after_all_is_a_sentence(monkeypatch, integrated):
    be_a_spark(monkeypatch, integrated=integrated)
    said = no_memory_left(REFUSED, "cuda")
    assert said.message.endswith("CUDA out of memory. Tried to allocate 2.00 GiB.")
    assert ("drop_caches" in said.mend) == bool(integrated)
    assert "drop_caches" not in no_memory_left(REFUSED, "cpu").mend


def test_memory_that_the_system_refuses_is_the_same_sentence():
    with pytest.raises(RuntimeError) as refused:
        torch.empty(1 << 60, dtype=torch.uint8)
    for problem, said in (
        (refused.value, f"{(1 << 60) / 1e9:,.1f} GB could not be had"),
        (MemoryError(), "the system gives no more"),
        (REFUSED, "CUDA out of memory. Tried to allocate 2.00 GiB"),
    ):
        assert is_refused(problem)
        assert f"memory was refused: {said}" in no_memory_left(problem, "cpu").message
    assert not is_refused(RuntimeError("a shape"))
