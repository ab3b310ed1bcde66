"""Plant faults in a kernel's CUDA source on a GPU, one at a time, and tell which nobody saw.

A script says where the source is and what is tried; the test beside it keeps its list true to the
source where there is no GPU.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from kernels.common import nvrtc
from tests.kernels.nvrtc_program import compiled

Fault = tuple[str, str, str, str | None]
"""Name, what the source says, what it is made to say, a proof or law that must turn red."""


def planted(path: Path, old: str, new: str) -> str:
    """Return the whole source with a fault in it.

    A statement that is taken out leaves its semicolon: a loop or condition around it would take
    what comes next for its body, which is another fault or no program at all.
    """
    source = nvrtc.read_source(path)
    places = source.count(old)
    assert places == 1, f"{places} places to plant it in, expected one: {old}"
    assert new or not old.rstrip().endswith(";"), f"a statement taken out leaves none: {old}"
    return source.replace(old, new)


def can_be_planted(path: Path, fault: Fault, macros: Mapping[str, int]) -> bool:
    """Whether a fault changes the source; of the one that must not, whether it does not.

    Args:
        path: of the source.
        fault: what is planted.
        macros: of one launch of the source.

    Raises:
        AssertionError: there is not one place for it, or what comes of it is no program.
    """
    name, old, new, _ = fault
    source = planted(path, old, new)
    refusal = refused(source, macros)
    assert not refusal, f"{name}: {refusal}"
    return (source == nvrtc.read_source(path)) == (name == "nothing changed")


def refused(source: str, macros: Mapping[str, int]) -> str:
    """Return what the compiler has against a source for sm_90a; nothing where it is a program.

    No machine code is made, which would take a hundred times as long.
    """
    options = ["--gpu-architecture=compute_90a", "--fdevice-syntax-only", "--disable-warnings"]
    with compiled(source, options, macros) as (_, refusal):
        return refusal


def try_all(
    faults: Sequence[Fault],
    path: Path,
    compile_ahead: Callable[[list[str]], object],
    plant: Callable[[str], object],
    broken: Callable[[str | None], list[str]],
) -> int:
    """Compile all, then try one after another; returns how many faults nobody saw.

    Args:
        faults: the first may change nothing, and name nothing that must turn red.
        path: of the source.
        compile_ahead: compiles sources, those of `faults` in order, side by side.
        plant: has the next launches run another source.
        broken: what must see a fault, or None -> all that is red.
    """
    missed = 0
    with TemporaryDirectory() as folder:
        nvrtc.keep_in(Path(folder))
        sources = [planted(path, old, new) for _, old, new, _ in faults]
        compile_ahead(sources)
        for (name, _, _, wanted), source in zip(faults, sources, strict=True):
            plant(source)
            red = broken(wanted)
            is_seen = bool(red) == (wanted is not None)
            missed += not is_seen
            sys.stdout.write(f"{'seen' if is_seen else 'MISSED'} {name}: {', '.join(red)}\n")
    return missed
