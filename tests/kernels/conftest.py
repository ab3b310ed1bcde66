"""Plant faults in a process whose kernels are interpreted; call what only a GPU's tensors reach."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from kernels.common import nvrtc


@pytest.fixture(scope="module", autouse=True)
def kept_cubins(tmp_path_factory):
    """All files of a run, and all workers of it, keep what they compile of CUDA C++ in one folder.

    It is kept by its content: a source that was changed is compiled.
    """
    run = tmp_path_factory.getbasetemp()
    run = run.parent if run.name.startswith("popen-") else run  # a worker's own folder
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nvrtc, "_folder", {})
        nvrtc.keep_in(run / "cubins")
        yield


@pytest.fixture
def on_gpu(monkeypatch) -> None:
    """Let tensors of the host say that they are on a GPU."""
    monkeypatch.setattr(torch.Tensor, "is_cuda", property(lambda _: True))


@pytest.fixture(scope="session")
def shifted() -> Callable[..., torch.Tensor]:
    """Return a function: (tensor, bytes) -> its copy that begins so far behind a whole load."""

    def copy(tensor: torch.Tensor, num_bytes: int = 8) -> torch.Tensor:
        first = num_bytes // tensor.itemsize
        room = torch.zeros(first + tensor.numel(), dtype=tensor.dtype)
        return room[first:].view(tensor.shape).copy_(tensor)

    return copy


@pytest.fixture(scope="session")
def plant(run_script, tmp_path_factory) -> Callable[..., dict[str, list[str]]]:
    """Return a function: (script, faults) -> what turned red, by fault, in one process."""

    def run(script: Path, faults: list[dict[str, str]]) -> dict[str, list[str]]:
        folder = tmp_path_factory.mktemp("planted")
        (folder / "faults.json").write_text(json.dumps(faults))
        return run_script(script, str(folder), str(folder / "faults.json"), interpreted=True)

    return run
