"""Read the PTX of a CUDA source as paths: what a thread may run between two instructions."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path

from cuda.bindings import nvrtc as compiler

from kernels.common import nvrtc
from tests.kernels.nvrtc_program import compiled

Test = Callable[[str], bool]
"""Says of an instruction whether it is meant."""

_COMMENT = re.compile(r"//[^\n]*")
_LABEL = re.compile(r"[{}\s]*([$\w]+):(?!:)")
_BRANCH = re.compile(r"(@!?%?\w+ )?bra(?:\.uni)? ([$\w]+)")
_REGISTER = re.compile(r"%[\w.]+")
_MADE = re.compile(r"(?:@\S+ )?[\w.:]+ (%[\w.]+)")


def ptx_of(path: Path, target: str, macros: Mapping[str, int]) -> str:
    """Compile a CUDA source as `nvrtc.compile_cubin` does, but for the last step.

    Args:
        path: a .cu file.
        target: "sm_90a", "sm_121a" and so on; what is compiled for "compute_90a" is the same, and
            no machine code is made of it.
        macros: names and values defined before the first line.
    """
    options = [f"--gpu-architecture={target.replace('sm_', 'compute_')}"]
    with compiled(nvrtc.read_source(path), options, macros) as (program, refusal):
        assert not refusal, refusal
        _, size = compiler.nvrtcGetPTXSize(program)
        text = bytes(size)
        compiler.nvrtcGetPTX(program, text)
    return text.decode().rstrip("\0")


class Paths:
    """The instructions and labels of a kernel in order, and which may follow which."""

    def __init__(self, ptx: str) -> None:
        self.lines = list(_instructions(_COMMENT.sub("", ptx[ptx.index(".entry") :])))

    def all(self, meant: Test) -> list[int]:
        """Where the instructions stand that are meant."""
        return [at for at, line in enumerate(self.lines) if meant(line)]

    def reached(self, start: int, goal: Test, stop: Test) -> list[str]:
        """List the goals that may run behind an instruction before one at which a path stops."""
        found, seen, left = [], set(), self._after(start)
        while left:
            at = left.pop()
            if at in seen:
                continue
            seen.add(at)
            if goal(self.lines[at]):
                found.append(self.lines[at])
            if not stop(self.lines[at]):
                left += self._after(at)
        return found

    def is_made_of(self, register: str, other: str) -> bool:
        """Whether a register is computed from another one, such as %tid.x."""
        seen, left = set[str](), [register]
        while left:
            if (one := left.pop()) not in seen:
                seen.add(one)
                left += self._sources[one]
        return other in seen

    @cached_property
    def _sources(self) -> Mapping[str, list[str]]:
        found: dict[str, list[str]] = defaultdict(list)
        for line in self.lines:
            if made := _MADE.match(line):
                found[made.group(1)] += _REGISTER.findall(line[made.end() :])
        return found

    def _after(self, at: int) -> list[int]:
        line = self.lines[at]
        assert not line.startswith("brx"), "a table of branches is not read here"
        if line in ("ret", "exit"):
            return []
        branch = _BRANCH.fullmatch(line)
        if branch is None:
            return [at + 1]
        return [self._place(branch.group(2), at), *([at + 1] if branch.group(1) else [])]

    def _place(self, label: str, branch: int) -> int:
        """Find a label. Loops of inline assembly have one name; each stands before its branch."""
        places = self.all(lambda line: line == f"{label}:")
        return max((one for one in places if one < branch), default=places[0])


def _instructions(text: str) -> Iterator[str]:
    for piece in text.split(";"):
        rest = piece
        while label := _LABEL.match(rest):
            yield f"{label.group(1)}:"
            rest = rest[label.end() :]
        if line := " ".join(rest.strip("{} \n\t").split()):
            yield line
