"""Run small bf16 and e4m3 kernels in the repaired interpreter and compare them with torch."""

import json
import sys

import torch
import triton
import triton.language as tl

from kernels.common import exact_torch, interpreter
from kernels.common.exact import exp, sum_rows

interpreter.install()


@triton.jit
def cast_kernel(x_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out_ptr + at, tl.load(x_ptr + at).to(out_ptr.dtype.element_ty))


@triton.jit
def arithmetic_kernel(x_ptr, y_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    x, y = tl.load(x_ptr + at), tl.load(y_ptr + at)
    tl.store(out_ptr + at, x * y + x)


@triton.jit
def dot_kernel(x_ptr, y_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(out_ptr + at, tl.dot(tl.load(x_ptr + at), tl.load(y_ptr + at)))


@triton.jit
def exact_kernel(
    x_ptr, out_ptr, sum_ptr, N: tl.constexpr, FOLDS: tl.constexpr, PAIRS: tl.constexpr
):
    at = tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + at)
    tl.store(out_ptr + at, exp(x))
    tl.store(sum_ptr + tl.arange(0, 1)[:, None], sum_rows(x, 1, FOLDS, PAIRS))


def cast(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    out = torch.empty(x.shape, dtype=dtype)
    cast_kernel[(1,)](x, out, N=x.numel())
    return out


torch.manual_seed(0)
N = 4096
x, y = torch.randn(N) * 10, torch.randn(N)
bf_x, bf_y = x.bfloat16(), y.bfloat16()
verdicts = {"rounds fp32 to bf16": torch.equal(cast(x, torch.bfloat16), bf_x)}

e4m3 = cast(x * 100, torch.float8_e4m3fn).view(torch.uint8)
saturated = (x * 100).clamp(-448, 448).to(torch.float8_e4m3fn).view(torch.uint8)
verdicts["rounds and saturates to e4m3"] = torch.equal(e4m3, saturated)

out = torch.empty(N, dtype=torch.bfloat16)
arithmetic_kernel[(1,)](bf_x, bf_y, out, N=N)
verdicts["rounds each bf16 operation"] = torch.equal(out, bf_x * bf_y + bf_x)

square_x, square_y = bf_x.view(64, 64), bf_y.view(64, 64)
product = torch.empty(64, 64)
dot_kernel[(1,)](square_x, square_y, product, N=64)
near = torch.allclose(product, square_x.float() @ square_y.float(), rtol=1e-5, atol=1e-4)
verdicts["multiplies bf16 matrices"] = near

values, total = torch.empty(N), torch.empty(1)
exact_kernel[(1,)](x, values, total, N=N, FOLDS=1, PAIRS=11)
verdicts["exp has the bits of its twin"] = torch.equal(values, exact_torch.exp(x))
verdicts["sum has the bits of its twin"] = torch.equal(total, exact_torch.sum_rows(x, 1, 11))

json.dump(verdicts, sys.stdout)
