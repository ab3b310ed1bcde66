"""Say whether this process interprets kernels on CPU tensors, and make it so.

Test-support code: only `engine.check.interpreter` and the tests install it. `TRITON_INTERPRET=1`
must stand in the environment before Triton is first imported.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

REPAIRED_VERSIONS = ("3.6.", "3.7.")
"""Triton versions whose interpreter internals `interpreter_repair.py` was tested against."""

_state = {"installed": False}


def is_installed() -> bool:
    """Say whether this process runs kernels on CPU tensors in the repaired interpreter."""
    return _state["installed"]


def on_kernels(x: "torch.Tensor") -> bool:
    """Say whether a tensor goes to Triton's kernels, compiled or interpreted, else to torch."""
    return x.is_cuda or is_installed()


def install() -> None:
    """Repair the interpreter of this process, once.

    Raises:
        RuntimeError: Triton was imported to compile, or is a version whose interpreter the repair
            does not know.
    """
    if is_installed():
        return
    import triton
    from triton import knobs

    if not knobs.runtime.interpret:
        raise RuntimeError("start the process with TRITON_INTERPRET=1 to interpret kernels")
    if not triton.__version__.startswith(REPAIRED_VERSIONS):
        known = ", ".join(f"{version}x" for version in REPAIRED_VERSIONS)
        raise RuntimeError(
            f"the interpreter of Triton {triton.__version__} is not known to be repaired; "
            f"install one of {known} to check kernels without a GPU"
        )
    from kernels.common import interpreter_repair, interpreter_shortcuts

    interpreter_repair.apply()
    interpreter_shortcuts.apply()
    _state["installed"] = True
