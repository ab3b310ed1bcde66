"""The embedding copies rows, gives zeros for ids it does not hold, and compiles for both GPUs."""

import pytest
import torch

from kernels.common.launch_options import launch_options
from kernels.embed import embed
from kernels.embed.kernel import embed_kernel
from kernels.embed.op import LANES, NUM_WARPS
from tests.kernels.compiling import assert_fits, compile_launch


@pytest.mark.parametrize("capability", [90, 121])
def test_the_kernel_compiles_and_copies_sixteen_bytes_an_instruction(capability):
    constants = {"WIDTH": 5120, "LANES": LANES, "OVERLAP": False}
    types = {"ids_ptr": "*i32"}
    binary = compile_launch(embed_kernel, constants, launch_options(NUM_WARPS), capability, types)
    assert_fits(binary)
    assert binary.shared_bytes == 0
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
