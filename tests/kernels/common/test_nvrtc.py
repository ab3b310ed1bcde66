"""CUDA C++ is compiled without a GPU, kept by what it says, and refused in a sentence."""

import subprocess
import sys
from pathlib import Path

import pytest

from kernels.common import nvrtc
from kernels.common.compile import mnemonics_of, usage_of
from kernels.common.nvrtc import CompileError, architecture, compile_cubin, read_source

SOURCE = """
#include <cuda_fp16.h>
extern "C" __global__ void add(float* x) { x[threadIdx.x] += float(VALUE); }
"""
MACROS = {"VALUE": 3}
ROOT = Path(__file__).parents[3]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of this test's own, and no other."""
    monkeypatch.setattr(nvrtc, "_folder", {})
    nvrtc.keep_in(tmp_path / "kept")
    return tmp_path / "kept"


@pytest.fixture
def compilations(monkeypatch):
    """The targets that were compiled and not found."""
    seen, ours = [], nvrtc._compile

    def compile_and_count(source, target, macros):
        seen.append(target)
        return ours(source, target, macros)

    monkeypatch.setattr(nvrtc, "_compile", compile_and_count)
    return seen


@pytest.mark.parametrize(
    ("capability", "name"),
    [((8, 0), "sm_80"), ((8, 9), "sm_89"), ((9, 0), "sm_90a"), ((10, 3), "sm_103a"),
     ((12, 0), "sm_120f"), ((12, 1), "sm_121a")],
)  # fmt: skip
def test_a_capability_names_the_target_with_its_chips_own_parts(capability, name):
    assert architecture(capability) == name


@pytest.mark.parametrize("target", ["sm_90a", "sm_120f", "sm_121a"])
def test_a_kernel_is_compiled_without_a_gpu(folder, target):
    cubin = compile_cubin(SOURCE, target, MACROS)
    assert cubin[:4] == b"\x7fELF"
    assert usage_of(cubin)["LOCAL"] == 0
    assert any(name.startswith("FADD") for name in mnemonics_of(cubin))


def test_the_same_content_is_compiled_once(folder, compilations):
    first = compile_cubin(SOURCE, "sm_90a", MACROS)
    assert compile_cubin(SOURCE, "sm_90a", dict(MACROS)) == first
    assert compilations == ["sm_90a"]
    assert [path.suffix for path in folder.iterdir()] == [".cubin"]


@pytest.mark.parametrize(
    ("source", "target", "macros"),
    [(SOURCE, "sm_121a", MACROS), (SOURCE, "sm_90a", {"VALUE": 4}),
     (SOURCE + " ", "sm_90a", MACROS), (SOURCE, "sm_90a", {"VALUE": 3, "OTHER": 1})],
    ids=["target", "value", "source", "name"],
)  # fmt: skip
def test_other_content_is_another_kernel(folder, compilations, source, target, macros):
    compile_cubin(SOURCE, "sm_90a", MACROS)
    compile_cubin(source, target, macros)
    assert compilations == ["sm_90a", target]
    assert len(list(folder.iterdir())) == 2


def test_the_order_of_macros_does_not_matter(folder, compilations):
    for macros in ({"VALUE": 3, "OTHER": 1}, {"OTHER": 1, "VALUE": 3}):
        compile_cubin(SOURCE, "sm_90a", macros)
    assert compilations == ["sm_90a"]


def test_another_compiler_compiles_again(folder, compilations, monkeypatch):
    compile_cubin(SOURCE, "sm_90a", MACROS)
    monkeypatch.setattr(nvrtc, "_nvrtc_version", lambda: (99, 9))
    compile_cubin(SOURCE, "sm_90a", MACROS)
    assert compilations == ["sm_90a"] * 2


def test_without_a_folder_nothing_is_kept(tmp_path, monkeypatch, compilations):
    monkeypatch.setattr(nvrtc, "_folder", {})
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        compile_cubin(SOURCE, "sm_90a", MACROS)
    assert compilations == ["sm_90a"] * 2
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_costs_a_compilation_and_nothing_else(
    tmp_path, monkeypatch, compilations
):
    (tmp_path / "taken").write_text("a file in the place of the folder")
    monkeypatch.setattr(nvrtc, "_folder", {})
    nvrtc.keep_in(tmp_path / "taken" / "kept")
    for _ in range(2):
        assert compile_cubin(SOURCE, "sm_90a", MACROS)[:4] == b"\x7fELF"
    assert compilations == ["sm_90a"] * 2
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


def test_a_refused_source_is_a_sentence_with_the_target_and_the_line(folder):
    with pytest.raises(CompileError, match=r"NVRTC refused a kernel for sm_90a: [\s\S]*missing"):
        compile_cubin("__global__ void broken() { missing(); }", "sm_90a", {})
    assert not folder.exists()


def test_an_instruction_of_a_gpus_own_is_there_and_refused_elsewhere():
    source = """extern "C" __global__ void f(unsigned* x, short c) {
      asm("{ .reg .b8 a, b; mov.b16 {a, b}, %1; cvt.rn.f16x2.e2m1x2 %0, a; }"
          : "=r"(*x) : "h"(c));
    }"""
    for capability in ((12, 0), (12, 1)):
        cubin = compile_cubin(source, architecture(capability), {})
        assert any(name.startswith("F2FP") for name in mnemonics_of(cubin))
    with pytest.raises(CompileError, match="NVRTC refused a kernel for sm_90a"):
        compile_cubin(source, "sm_90a", {})


def test_a_missing_compiler_is_a_sentence_that_says_what_to_install(monkeypatch):
    def absent(name):
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(nvrtc, "import_module", absent)
    with pytest.raises(CompileError, match=r"cannot be compiled: No module .*install cuda-core"):
        nvrtc._compile(SOURCE, "sm_90a", [])


def test_threads_compile_side_by_side():
    """The first import of the compiler included, which a process does once."""
    values = "{'VALUE': value}"
    code = f"""
from concurrent.futures import ThreadPoolExecutor
from kernels.common import nvrtc
def one(value):
    return nvrtc.compile_cubin({SOURCE!r}, "sm_90a", {values})
with ThreadPoolExecutor(4) as pool:
    assert len(set(pool.map(one, range(4)))) == 4
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_headers_that_a_source_names_are_put_in_their_places_once(tmp_path):
    family, shared = tmp_path / "family", tmp_path / "common"
    family.mkdir()
    shared.mkdir()
    (family / "a.cu").write_text(
        '#include "b.cuh"\n#include <cuda_fp16.h>\n#include "../common/c.cuh"\nmain\n'
    )
    (family / "b.cuh").write_text('#pragma once\n#include "../common/c.cuh"\nb\n')
    (shared / "c.cuh").write_text("#pragma once\nc\n")
    text = read_source(family / "a.cu")
    lines = [line for line in text.splitlines() if line and not line.startswith("#pragma")]
    assert lines == ["c", "b", "#include <cuda_fp16.h>", "main"]
