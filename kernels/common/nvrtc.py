"""Compile CUDA C++ at run time, and keep the machine code by its content.

NVRTC needs no GPU, no driver and no host compiler: a kernel takes 0.1 to 0.5 s once, then comes
from the folder that `keep_in` names. `cuda_kernel.py` loads and launches what is compiled here.
"""

import hashlib
import importlib.util
import os
import re
import threading
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path

from kernels.common.chips import Capability

_folder: dict[str, Path] = {}

_importing = threading.Lock()
"""Held while cuda.core is imported: a second thread would see it half made."""

_INCLUDE = re.compile(r'^#include "([^"]+)"$', re.MULTILINE)


class CompileError(RuntimeError):
    """NVRTC refused a source, or is not installed; the message says which and what it said."""


def keep_in(folder: Path) -> None:
    """Keep compiled kernels of this process in a folder, and look for them there first.

    Args:
        folder: made when the first kernel is kept. A folder that cannot be written costs the
            compile time again in the next process and nothing else.
    """
    _folder["cubin"] = folder


def architecture(capability: Capability) -> str:
    """Name the target of a compute capability, such as sm_121a: "a" unlocks a chip's own parts.

    The RTX 50 family is built as sm_120f: "f" unlocks what every chip of a family has.

    Args:
        capability: (major, minor).
    """
    major, minor = capability
    if capability == (12, 0):
        return "sm_120f"
    return f"sm_{major}{minor}" + ("a" if major >= 9 else "")


@cache
def read_source(path: Path) -> str:
    """Read a CUDA source with the headers that it names put in their places.

    Whole, because what is compiled is also the key under which it is kept. A file is read once in a
    process.

    Args:
        path: a .cu file; `#include "name"` names a file by its way from the folder of the file that
            includes it, and each is included once.

    Raises:
        OSError: the source, or a header that it names, does not read.
    """
    return _inlined(path, set())


def compile_file(path: Path, capability: Capability, macros: Mapping[str, int]) -> bytes:
    """Compile a CUDA source for a chip, or find what was kept of it.

    Args:
        path: a .cu file, as `read_source` takes it.
        capability: compute capability, such as (12, 1).
        macros: names and values defined before the first line.

    Returns:
        As `compile_cubin`.

    Raises:
        OSError: the source, or a header that it names, does not read.
        CompileError: as `compile_cubin`.
    """
    return compile_cubin(read_source(path), architecture(capability), macros)


def compile_cubin(source: str, target: str, macros: Mapping[str, int]) -> bytes:
    """Compile a CUDA C++ source to machine code, or find it where it was kept.

    Args:
        source: one translation unit; may include CUDA's own headers.
        target: "sm_90a", "sm_121a" and so on.
        macros: names and values defined before the first line.

    Returns:
        The cubin: one ELF file with every kernel of the source.

    Raises:
        CompileError: NVRTC or CUDA's headers are missing, or NVRTC refuses the source.
    """
    defined = [(name, str(value)) for name, value in sorted(macros.items())]
    key = hashlib.sha256(repr((source, target, defined, _nvrtc_version())).encode()).hexdigest()
    kept = _folder["cubin"] / f"{key}.cubin" if _folder else None
    if kept is not None and kept.is_file() and (content := kept.read_bytes()):
        return content
    cubin = _compile(source, target, defined)
    if kept is not None:
        _keep(kept, cubin)
    return cubin


def _inlined(path: Path, seen: set[Path]) -> str:
    seen.add(path.resolve())

    def included(match: re.Match[str]) -> str:
        header = path.parent / match.group(1)
        return "" if header.resolve() in seen else _inlined(header, seen)

    text = path.read_text(encoding="utf-8").replace("#pragma once\n", "")
    return _INCLUDE.sub(included, text)


def _compile(source: str, target: str, macros: list[tuple[str, str]]) -> bytes:
    try:
        with _importing:
            core = import_module("cuda.core")
    except ImportError as problem:
        raise CompileError(
            f"CUDA kernels cannot be compiled: {problem}; install cuda-core and nvidia-cuda-nvrtc"
        ) from None
    options = core.ProgramOptions(
        arch=target, std="c++17", include_path=_include_folder(), define_macro=macros or None
    )
    try:
        return bytes(core.Program(source, "c++", options).compile("cubin").code)
    except Exception as problem:  # noqa: BLE001  cuda.core exports no class of what it raises
        raise CompileError(f"NVRTC refused a kernel for {target}: {problem}") from None


def _keep(path: Path, content: bytes) -> None:
    """Write a file whole or not at all; losing it costs a compilation."""
    part = path.with_suffix(f".{os.getpid()}-{threading.get_ident()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(content)
        part.replace(path)
    except OSError:
        with suppress(OSError):
            part.unlink(missing_ok=True)


@cache
def _include_folder() -> str:
    """Find CUDA's headers, which come with NVIDIA's runtime wheel."""
    found = importlib.util.find_spec("nvidia")
    for place in (found.submodule_search_locations or ()) if found else ():
        folder = Path(place) / "cu13" / "include"
        if (folder / "cuda_fp16.h").is_file():
            return str(folder)
    raise CompileError("CUDA's headers are not here; install nvidia-cuda-runtime")


@cache
def _nvrtc_version() -> tuple[int, int]:
    _, major, minor = import_module("cuda.bindings.nvrtc").nvrtcVersion()
    return major, minor
