"""Whether Triton launches kernels here: it compiles a part of itself with the C compiler.

A machine that never compiled anything lacks what that takes, and Triton's own words do not say so.
"""

import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping
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

    Asked on a machine with a GPU. What a compiler says would go to stderr, in the middle of a
    screen that stands there: where something is missing, a process of its own asks first.
    """
    missing = dict(_missing())
    if missing and not _does_without():
        return _lack(missing)
    try:
        import_module("triton.runtime").driver.active.utils  # noqa: B018  it is made when asked for
    except (ImportError, AssertionError, *failures()) as problem:
        said = (str(problem).splitlines() or [type(problem).__name__])[0].rstrip(".!")
        return Lack(
            f"Triton does not launch kernels here: {said}.",
            "Set model.device to 'cpu' until it does.",
        )
    return None


def _does_without() -> bool:
    """Whether Triton loads its part all the same, as where it was compiled before."""
    script = "from triton.runtime import driver; driver.active.utils"
    command = [sys.executable, "-P", "-c", script]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _lack(missing: Mapping[str, str]) -> Lack:
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
