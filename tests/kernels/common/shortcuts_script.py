"""Count what the interpreter does of a launch, and compare what it keeps with what it would make.

TRITON_INTERPRET=1 python shortcuts_script.py
"""

import json
import sys
from collections import Counter
from typing import Any

import torch
import triton
import triton.language as tl
from triton.runtime import interpreter as internals

from kernels.common import interpreter

dtype_of, make_block = internals._get_np_dtype, tl.block_type.__init__
make_tensor = tl.tensor.__init__
calls: Counter[str] = Counter()


def count(holder: Any, name: str) -> None:
    function = getattr(holder, name)

    def counted(*arguments: Any) -> Any:
        calls[name] += 1
        return function(*arguments)

    setattr(holder, name, counted)


count(internals, "_patch_lang_tensor")  # once where a language module is patched
count(internals.InterpreterBuilder, "create_add")
count(tl.core, "validate_block_shape")
interpreter.install()


@triton.jit
def _twice(x):
    return x + x


@triton.jit
def sum_kernel(x_ptr, out_ptr, CALLS: tl.constexpr):
    at = tl.arange(0, 8)
    x = tl.load(x_ptr + at)
    for _ in tl.static_range(CALLS):
        x = _twice(x)
    tl.store(out_ptr + at, x)


def launched(num_calls: int) -> tuple[Counter[str], bool]:
    """What a launch of as many device functions took, and whether its sums are right."""
    x, out = torch.arange(8, dtype=torch.int32), torch.zeros(8, dtype=torch.int32)
    calls.clear()
    sum_kernel[(1,)](x, out, CALLS=num_calls)
    return calls.copy(), torch.equal(out, x << num_calls)


def refuses(element: Any, shape: list[int]) -> bool:
    try:
        tl.block_type(element, shape)
    except (TypeError, ValueError):
        return True
    return False


def same(kept: Any, make: Any, *arguments: Any) -> bool:
    """Whether every attribute is what it would be if it were made anew."""
    anew = object.__new__(type(kept))
    make(anew, *arguments)
    texts = [{name: repr(value) for name, value in vars(one).items()} for one in (kept, anew)]
    return texts[0] == texts[1]


SCALARS = [
    tl.int1, tl.int8, tl.uint8, tl.int16, tl.uint16, tl.int32, tl.uint32, tl.int64, tl.uint64,
    tl.float16, tl.bfloat16, tl.float32, tl.float64, tl.float8e5, tl.float8e4nv,
    tl.pointer_type(tl.float32), tl.pointer_type(tl.bfloat16),
]  # fmt: skip
SHAPES = [[1], [8], [1, 8], [8, 1], [2, 4, 8]]
blocks = [(one, shape) for one in SCALARS for shape in SHAPES]
types = [*SCALARS, *(tl.block_type(*one) for one in blocks)]

verdicts = {}
few, verdicts["a device function computes"] = launched(1)
many, verdicts["device functions compute"] = launched(5)
verdicts["a launch patches the language once"] = (
    few["_patch_lang_tensor"] == many["_patch_lang_tensor"] == 1
)
verdicts["a launch takes its patches back"] = tl.core.is_builtin(tl.load)
verdicts["a sum of integers is added once"] = few["create_add"] == 1
calls.clear()
again = [tl.block_type(*one) for one in blocks]
verdicts["a block's shape is checked once"] = calls["validate_block_shape"] == 0
verdicts["a block is what it was"] = all(
    same(kept, make_block, *one) for kept, one in zip(again, blocks, strict=True)
)
verdicts["a shape that is none is refused each time"] = all(
    refuses(tl.int32, shape) for shape in ([3], [3], [], [])
)
verdicts["a tensor is what it was"] = all(
    same(tl.tensor(None, one), make_tensor, None, one) for one in types * 2
)
shapes = [(tl.tensor(None, one).shape, tl.tensor(None, one).shape) for one in types]
verdicts["a tensor's sizes are wrapped once"] = all(one is other for one, other in shapes)
verdicts["numpy's types are what they were"] = all(
    internals._get_np_dtype(one) == dtype_of(one) for one in types * 2
)
json.dump(verdicts, sys.stdout)
