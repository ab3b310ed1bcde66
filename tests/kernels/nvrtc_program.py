"""Compile CUDA sources as far as a test looks: to PTX, or no further than whether they are any."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from cuda.bindings import nvrtc as compiler

from kernels.common import nvrtc


@contextmanager
def compiled(
    source: str, options: Sequence[str], macros: Mapping[str, int]
) -> Iterator[tuple[compiler.nvrtcProgram, str]]:
    """Compile a source with the folder of our headers.

    Args:
        source: of a .cu file.
        options: of the compiler, beside that folder and the macros.
        macros: names and values defined before the first line.

    Yields:
        The program, and what the compiler has against it, nothing where it is one.
    """
    _, program = compiler.nvrtcCreateProgram(source.encode(), b"kernel.cu", 0, [], [])
    told = [*options, "--std=c++17", f"--include-path={nvrtc._include_folder()}"]
    told += [f"--define-macro={name}={value}" for name, value in macros.items()]
    (result,) = compiler.nvrtcCompileProgram(program, len(told), [one.encode() for one in told])
    try:
        done = result == compiler.nvrtcResult.NVRTC_SUCCESS
        yield program, "" if done else _log_of(program) or result.name
    finally:
        compiler.nvrtcDestroyProgram(program)


def _log_of(program: compiler.nvrtcProgram) -> str:
    _, size = compiler.nvrtcGetProgramLogSize(program)
    log = bytes(size)
    compiler.nvrtcGetProgramLog(program, log)
    return log.decode().strip("\0\n ")
