"""Widening a store of codes is exact, stops at the positions, and compiles for both GPUs."""

from pathlib import Path

import pytest
import torch

from kernels.attention.kv_codes import E4M3, KvScales
from kernels.attention.widen import SLOTS, attention_widen
from kernels.attention.widen_kernel import widen_kernel as kernel
from kernels.common.compile import Binary, compile_kernel


def test_the_kernel_and_the_cpu_path_are_green(run_script):
    script = Path(__file__).with_name("widen_script.py")
    for build in ("torch", "interpreter"):
        found = run_script(script, build, interpreted=build == "interpreter")
        assert found["num_proofs"] > 10
        assert found["red"] == []


def compiled(capability: int) -> Binary:
    names = kernel.arg_names
    types = {name: "*u8" if name in ("keys_ptr", "values_ptr") else "i32" for name in names}
    types |= {"key_scales_ptr": "*fp32", "value_scales_ptr": "*fp32"}
    types |= {"positions_ptr": "*i32", "out_ptr": "*bf16"}
    aligned = [name for name in names if name.endswith("_ptr") or name.startswith("stride_")]
    constants, options = {"D": 256, "SLOTS": SLOTS}, {"num_warps": 4}
    return compile_kernel(kernel, types, constants, options, capability, aligned)


@pytest.mark.parametrize("capability", [90, 121])
def test_it_compiles_without_spills_by_the_hardware_converter(capability):
    binary = compiled(capability)
    usage = binary.usage()
    assert usage["STACK"] == usage["LOCAL"] == binary.spill_bytes() == 0
    assert "cvt.rn.f16x2.e4m3x2" in binary.ptx


@pytest.mark.parametrize("capability", [90, 121])
def test_places_in_a_store_of_more_than_two_billion_numbers_are_counted_in_64_bits(capability):
    ptx = compiled(capability).ptx
    assert "mul.lo.s64" in ptx
    assert "mul.lo.s32" not in ptx


def call(**changed: object) -> None:
    codes, ones = torch.zeros(2, 8, 64).to(E4M3), torch.ones(2)
    arguments: dict = {
        "keys": codes,
        "values": codes,
        "scales": KvScales(ones, ones),
        "positions": torch.tensor([0, 5], dtype=torch.int32),
        "out": torch.empty(2, 2, 8, 64).bfloat16(),
    }
    attention_widen(**arguments | changed)


def test_wrong_arguments_are_sentences():
    call()
    with pytest.raises(TypeError, match="keys must be"):
        call(keys=torch.zeros(2, 8, 64).bfloat16())
    with pytest.raises(ValueError, match=r"out must be \[2, G, S, D\] = \[2, 2, 8, 64\], got \[3"):
        call(out=torch.empty(3, 2, 8, 64).bfloat16())
    with pytest.raises(ValueError, match="out must be contiguous, got strides"):
        call(out=torch.empty(2, 2, 9, 64).bfloat16()[:, :, :8])
    with pytest.raises(ValueError, match=r"positions must be \[2\] = \[2\], got \[1\]"):
        call(positions=torch.tensor([5], dtype=torch.int32))
    with pytest.raises(ValueError, match=r"scales of keys must be contiguous fp32 \[2\]"):
        call(scales=KvScales(torch.ones(3), torch.ones(2)))
    with pytest.raises(ValueError, match="slots of keys must lie side by side"):
        call(keys=torch.zeros(2, 8, 128).to(E4M3)[..., :64])
