"""Compile Triton kernels as their launches would, and look at what every kernel must keep to."""

from collections import Counter
from collections.abc import Collection, Mapping

from triton.runtime import JITFunction

from kernels.common.compile import Binary, compile_kernel, disassembly_of
from kernels.common.shared_memory import MAX_SHARED_BYTES

NOT_IEEE = ("fma.", "approx", ".ftz", "div.full")
"""What PTX says of steps that round otherwise than two IEEE operations one after the other."""


def compile_launch(
    kernel: JITFunction,
    constants: Mapping[str, int],
    options: Mapping[str, int | bool],
    capability: int,
    types: Mapping[str, str] | None = None,
    *,
    pointer: str = "*bf16",
    unaligned: Collection[str] = (),
) -> Binary:
    """Compile a kernel whose pointers and row strides are multiples of 16.

    Args:
        kernel: its pointers are named `_ptr`, its strides `stride_`.
        constants: value of each compile-time constant.
        options: launch options such as num_warps.
        capability: 90 or 121.
        types: of arguments that are neither `pointer` nor, for numbers, i32.
        pointer: type of pointers that have no other.
        unaligned: pointers and strides that are any number.
    """
    names = kernel.arg_names
    signature = {name: pointer if name.endswith("_ptr") else "i32" for name in names}
    aligned = [name for name in names if name.endswith("_ptr") or name.startswith("stride_")]
    return compile_kernel(
        kernel, signature | dict(types or {}), constants, options, capability,
        [name for name in aligned if name not in unaligned],
    )  # fmt: skip


def assert_fits(binary: Binary) -> None:
    """A block's shared memory is what the GPU has, and no register is spilled."""
    usage = binary.usage()
    assert binary.shared_bytes <= MAX_SHARED_BYTES[binary.capability]
    assert usage["STACK"] == usage["LOCAL"] == binary.spill_bytes() == 0


def assert_ieee(binary: Binary) -> None:
    """No step is contracted, approximate or flushed: bits are those of the torch model."""
    assert [word for word in NOT_IEEE if word in binary.ptx] == []


def loads_before_wait(cubin: bytes) -> int:
    """Count the loads in front of the one wait for the kernel before; of code without branches.

    What the kernel before writes must not be among them, wherever the compiler has moved loads.
    """
    before, _behind = disassembly_of(cubin).split("ACQBULK")
    return before.count("LDG.")


def bases(mnemonics: Mapping[str, int]) -> Counter[str]:
    """Count instructions by what stands before the first dot, such as LDG of LDG.E.128."""
    counts = Counter[str]()
    for name, number in mnemonics.items():
        counts[name.split(".")[0]] += number
    return counts
