"""Compile a Triton kernel for a GPU that is not here, and read what it would use of it.

Needs no GPU and no driver: only Triton with its bundled ptxas, cuobjdump and nvdisasm. Used by the
tests; the engine compiles by launching.
"""

import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime import JITFunction

TOOLS = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"

_INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_.]*)")


@dataclass(frozen=True)
class Binary:
    """One compiled kernel: its code and the resources of a block.

    Attributes:
        capability: 90 for sm_90a, 121 for sm_121a.
        ptx: the assembly that Triton emitted.
        cubin: the machine code.
        shared_bytes: shared memory of a block.
    """

    capability: int
    ptx: str
    cubin: bytes
    shared_bytes: int

    def usage(self) -> dict[str, int]:
        """Read registers, stack and local bytes of a thread: REG, STACK, LOCAL and others."""
        return usage_of(self.cubin)

    def spill_bytes(self) -> int:
        """Assemble the PTX again and read the bytes of spilled registers, stores and loads."""
        assembler = "ptxas-blackwell" if self.capability >= 100 else "ptxas"
        options = ("-v", "--fmad=false", f"--gpu-name=sm_{self.capability}a", "-o", "/dev/null")
        text = _on_file(self.ptx.encode(), ".ptx", assembler, *options)
        return sum(int(count) for count in re.findall(r"(\d+) bytes spill", text))

    def mnemonics(self) -> Counter[str]:
        """Count the SASS instructions by full name, such as LDG.E.128."""
        return mnemonics_of(self.cubin)


def usage_of(cubin: bytes) -> dict[str, int]:
    """Read what a thread of the one kernel of a cubin uses: REG, STACK, LOCAL and others."""
    text = _on_file(cubin, ".cubin", "cuobjdump", "--dump-resource-usage")
    return {name: int(value) for name, value in re.findall(r"\b([A-Z]+):(\d+)", text)}


def mnemonics_of(cubin: bytes) -> Counter[str]:
    """Count the SASS instructions of a cubin by full name, such as LDG.E.128."""
    return Counter(_INSTRUCTION.findall(disassembly_of(cubin)))


@lru_cache(maxsize=64)
def disassembly_of(cubin: bytes) -> str:
    """Disassemble a cubin, with labels where it branches to.

    Takes as long as compiling: what a file of tests looks at in several ways is kept.
    """
    return _on_file(cubin, ".cubin", "nvdisasm")


def compile_kernel(
    kernel: JITFunction[Any],
    signature: Mapping[str, str],
    constants: Mapping[str, int],
    options: Mapping[str, int | bool | str],
    capability: int,
    aligned: Collection[str] = (),
) -> Binary:
    """Compile a kernel for a compute capability.

    Args:
        kernel: a `@triton.jit` function of a process that does not interpret.
        signature: Triton type of each argument that is no constant: "*bf16", "i32", "fp32".
        constants: value of each compile-time constant.
        options: launch options such as num_warps.
        capability: 90 or 121.
        aligned: arguments that a launch would find divisible by 16: pointers and row strides.

    Raises:
        KeyError: an argument has neither a type nor a value.
    """
    names = kernel.arg_names
    source = ASTSource(
        kernel,
        {name: "constexpr" if name in constants else signature[name] for name in names},
        {(names.index(name),): value for name, value in constants.items()},
        {(names.index(name),): [["tt.divisibility", 16]] for name in aligned},
    )
    target = GPUTarget("cuda", capability, 32)
    compiled = triton.compile(source, target=target, options=dict(options))
    return Binary(capability, compiled.asm["ptx"], compiled.asm["cubin"], compiled.metadata.shared)


def _on_file(content: bytes, suffix: str, tool: str, *options: str) -> str:
    """Run one of the bundled tools on a temporary file and return all it prints."""
    with tempfile.NamedTemporaryFile(suffix=suffix) as file:
        file.write(content)
        file.flush()
        command = [str(TOOLS / tool), *options, file.name]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout + done.stderr
