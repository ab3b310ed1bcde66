"""Whether Triton launches kernels here: it compiles a part of itself with the C compiler.

A machine that never compiled anything lacks what that takes, and Triton's own words do not say so.
"""

import shutil
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path

from kernels.common.failures import failures

COMPILERS = ("gcc", "clang")
"""What Triton looks for."""


@dataclass(frozen=True, slots=True)
class Lack:
    """Why Triton does not launch kernels: a sentence, and what to do about it."""

    sentence: str
    mend: str


@cache
def what_triton_lacks() -> Lack | None:
    """Let Triton load its part, compiled where that was never done; None when it does.

    Asked on a machine with a GPU. What the compiler says goes to stderr.
    """
    try:
        import_module("triton.runtime").driver.active.utils  # noqa: B018  it is made when asked for
    except (ImportError, AssertionError, *failures()) as problem:
        said = (str(problem).splitlines() or [type(problem).__name__])[0].rstrip(".!")
        return _lack(said)
    return None


def _lack(said: str) -> Lack:
    missing = dict(_missing())
    if not missing:
        return Lack(
            f"Triton does not launch kernels here: {said}.",
            "Set model.device to 'cpu' until it does.",
        )
    return Lack(
        "Triton compiles a part of itself on this machine, which has no "
        f"{' and no '.join(missing)}.",
        f"On Debian, Ubuntu or DGX OS: sudo apt install {' '.join(missing.values())}",
    )


def _missing() -> Iterator[tuple[str, str]]:
    """What is not here, and the package that brings it."""
    if not any(shutil.which(one) for one in COMPILERS):
        yield "C compiler", "gcc"
    major, minor = sys.version_info[:2]
    if not (Path(str(sysconfig.get_config_var("INCLUDEPY"))) / "Python.h").is_file():
        yield f"headers of Python {major}.{minor}", f"python{major}.{minor}-dev"
