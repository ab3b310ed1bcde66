"""Plant one fault at a time in the CUDA source of a round's rows on a GPU, print what turns red.

PYTHONPATH=. python tests/kernels/norm/norm_device_faults.py

`test_norm_planted_faults.py` keeps the list true to the source where there is no GPU.
"""

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import torch

from kernels.common import domain, nvrtc, proofs
from kernels.common.cuda_kernel import CudaKernel
from kernels.norm import rows_launch
from kernels.norm.cases import FAMILY
from kernels.norm.problems import add_case
from tests.kernels.device_faults import Fault, try_all

MODEL = "bits of the model"
LAWS = {law.name: law for law in FAMILY.laws}
OPERANDS, MANY, OVERLAP = (
    "operands are those of the rows",
    "few rows have the bits of many",
    "overlap with the kernel before changes no bit",
)
CASES = [add_case(32, 5120), add_case(2, 256, domain.TINY), add_case(5, 640, domain.OUTLIERS)]
WIDTHS = (5120, 256, 640, 128, 2560, 8192)

FAULTS: list[Fault] = [
    ("nothing changed", "sums[i] = part[0];", "sums[i] = part[0];", None),
    ("eps dropped", "__fadd_rn(mean, p.eps)", "mean", MODEL),
    ("the weight not centred", "weight[i] = __fadd_rn(1.0f, i % 2", "weight[i] = (i % 2", MODEL),
    ("the weight of the next input", "weight[2 * i + 1])", "weight[2 * i])", MODEL),
    ("a part left out", "int left = HALVED / 2; left > 0", "int left = HALVED / 4; left > 0",
     MODEL),
    ("lanes added in another order", "int lanes = 1; lanes < 32; lanes *= 2",
     "int lanes = 16; lanes > 0; lanes /= 2", MANY),
    ("a warp's own sum for all", "sums[i] = shared[i];", "sums[i] = shared[threadIdx.x / 32];",
     MODEL),
    ("inputs past the row", "load(x + at, at < WIDTH)", "load(x + at, true)", MODEL),
    ("the first block's share by all", "blockIdx.x % SPLITS * EIGHTS", "0 * EIGHTS", MODEL),
    ("the first row by all", "row = blockIdx.x / SPLITS", "row = 0", MODEL),
    ("the sum not stored", "store(p.residual_out + row * p.residual_out_stride + input, own);", ";",
     MODEL),
    ("x for the sum", "own = added(own, load(x + input, writes))", "own = load(x + input, writes)",
     MODEL),
    ("operands of the first row", "operand_place(p.next, row, input)",
     "operand_place(p.next, 0, input)", OPERANDS),
    ("the largest of even inputs", "max(most & 0xffffu, most >> 16)", "most & 0xffffu", OPERANDS),
    ("magnitudes with their signs", "& 0x7fff7fffu", "", OPERANDS),
    ("one row otherwise", "static_cast<float>(WIDTH))",
     "static_cast<float>(WIDTH + (gridDim.x == SPLITS)))", MANY),
    ("the predecessor not waited for", "griddepcontrol.wait;", "// griddepcontrol.wait;", OVERLAP),
]  # fmt: skip


def plant(source: str) -> None:
    """Have the next launches run another source."""

    @cache
    def load(width: int, device: int) -> CudaKernel:
        target = nvrtc.architecture(torch.cuda.get_device_capability(device))
        return CudaKernel(nvrtc.compile_cubin(source, target, choices(width)), "add_norm")

    rows_launch.load = load


def choices(width: int) -> dict[str, int]:
    """Macros of a launch."""
    return {"WIDTH": width, "SPLITS": rows_launch.splits_of(width)}


def compile_ahead(sources: list[str]) -> None:
    """Compile side by side what is launched."""
    target = nvrtc.architecture(torch.cuda.get_device_capability())
    jobs = [(source, choices(width)) for width in WIDTHS for source in sources]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda job: nvrtc.compile_cubin(job[0], target, job[1]), jobs))


def broken(wanted: str | None) -> list[str]:
    """What is red of the cases and laws: all, or the one that must see a fault."""
    red = {
        name
        for case in CASES
        for name in ({MODEL} if wanted is None else {MODEL} & {wanted})
        if proofs.CUDA[name](FAMILY.ops[case.op], case, "cuda")
    }
    named = {OPERANDS, MANY, OVERLAP} if wanted is None else {wanted} & LAWS.keys()
    return sorted(red | {name for name in named if LAWS[name].broken("cuda")})


if __name__ == "__main__":
    sys.exit(try_all(FAULTS, rows_launch.SOURCE, compile_ahead, plant, broken))
