"""The embedding copies rows, gives zeros for ids it does not hold, and compiles for both GPUs."""

import pytest
import torch

from engine.check.run import render, run_checks
from kernels.common.compile import compile_kernel
from kernels.embed import embed
from kernels.embed.kernel import embed_kernel
from kernels.embed.op import LANES


def test_the_family_is_green_on_a_cpu():
    report = run_checks(["embed"], "cpu")
    assert report.ok, render(report)
    assert {finding.build for finding in report.findings} == {"torch", "interpreter"}


@pytest.mark.parametrize("capability", [90, 121])
def test_the_kernel_compiles_and_copies_sixteen_bytes_an_instruction(capability):
    names = embed_kernel.arg_names
    signature = {name: "*bf16" if name.endswith("_ptr") else "i32" for name in names}
    signature["ids_ptr"] = "*i32"
    constants = {"WIDTH": 5120, "LANES": LANES, "OVERLAP": False}
    aligned = [name for name in names if name.endswith("_ptr") or name.startswith("stride_")]
    binary = compile_kernel(
        embed_kernel, signature, constants, {"num_warps": 4}, capability, aligned
    )
    usage = binary.usage()
    assert usage["STACK"] == usage["LOCAL"] == binary.spill_bytes() == binary.shared_bytes == 0
    moves = {name for name in binary.mnemonics() if name.startswith(("LDG", "STG"))}
    assert moves == {"LDG.E", "LDG.E.128", "STG.E.128"}


def test_wrong_arguments_are_sentences():
    table, out = torch.zeros(9, 4).bfloat16(), torch.zeros(2, 4).bfloat16()
    ids = torch.zeros(2, dtype=torch.int32)
    with pytest.raises(TypeError, match="ids must be int32"):
        embed(ids.long(), table, out=out)
    with pytest.raises(ValueError, match=r"out must be \[T, D\] = \[2, 4\], got \[2, 3\]"):
        embed(ids, table, out=torch.zeros(2, 3).bfloat16())
    embed(ids[:0], table, out=out[:0])
