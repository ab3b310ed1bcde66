"""Plant one fault at a time in the joined launch's CUDA source on a GPU, print what turns red.

PYTHONPATH=. python tests/kernels/mixer/mixer_device_faults.py

`test_mixer_planted_faults.py` keeps the list true to the source where there is no GPU.
"""

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import torch

from kernels.common import nvrtc
from kernels.common.cuda_kernel import CudaKernel
from kernels.mixer import launch
from kernels.mixer.laws import LAWS
from kernels.mixer.tile import MOST_ROWS, macros
from tests.kernels.device_faults import Fault, try_all

STEPS, TWO, OPERANDS, PENDING, GRAPH = (law.name for law in LAWS)
WIDTHS = {STEPS: 768, TWO: 5120, OPERANDS: 256, PENDING: 256, GRAPH: 768}
"""Inputs of a | b that a law begins with."""

FAULTS: list[Fault] = [
    ("nothing changed", "Tile s;", "Tile s;", None),
    ("taps turned round", "taps[c][i]));", "taps[c][WINDOW - 1 - i]));", TWO),
    ("pending rows not in the window", "at >= 0 ? p.raw", "false ? p.raw", TWO),
    ("a row follows the one before it", "place >= 0 ? follows : place - 1", "place - 1", TWO),
    ("what is convolved not rounded", "total[c] = rounded(total[c]);", ";", TWO),
    ("SiLU not rounded", "y[c] = rounded(y[c]);", "y[c] = y[c];", TWO),
    ("squares added in another order", "int lanes = 1; lanes < 32; lanes *= 2",
     "int lanes = 16; lanes > 0; lanes /= 2", TWO),
    ("queries as long as keys", "QUERY_LENGTH = 0.08838834764831845f", "QUERY_LENGTH = 1.0f", TWO),
    ("no tail behind the pending rows", "if (one.row > 0) return;", "return;", TWO),
    ("a tail for every row", "if (one.row > 0) return;", ";", TWO),
    ("keys not recorded", "if (one.is_mine) *reinterpret_cast<float4*>",
     "if (false) *reinterpret_cast<float4*>", TWO),
    ("raw rows of a key recorded by no head", "head % heads_per_key == 0 &&", "false &&", TWO),
    ("inputs added in another order", "(__fadd_rn(total[0], total[1]), __fadd_rn(total[2],",
     "(__fadd_rn(total[0], total[2]), __fadd_rn(total[1],", TWO),
    ("the last warp's sums forgotten", "gates.sums[3][of][row])", "0.0f)", TWO),
    ("a | b not rounded", "const float sum = rounded(", "const float sum = (", TWO),
    ("a write share not rounded", "rounded(__fdiv_rn(1.0f,", "(__fdiv_rn(1.0f,", TWO),
    ("decays not recorded", "if (records) p.record.decay", "if (false) p.record.decay", TWO),
    ("pending rows not folded", "if (pending > 0) {", "if (false) {", PENDING),
    ("the folded state not stored", "    store_tile(s, p.state, at);\n", ";", PENDING),
    ("the last pending row forgotten", "for (int i = 0; i < p.count;",
     "for (int i = 0; i + 1 < p.count;", PENDING),
    ("always the first half", "*p.record.parity * MAX_ROWS", "0 * MAX_ROWS", PENDING),
    ("a branch goes on from the row before", "if (from >= 0) recall", "if (false) recall", TWO),
    ("outputs not gated", "__fmul_rn(scaled, gates[i][c])", "scaled", TWO),
    ("the squares of one block alone", "squares[i] = i < TILES ?", "squares[i] = i < WARPS ?", TWO),
    ("operands of every head in the first", "at.head * VALUE_DIM + at.column, row < rows",
     "at.column, row < rows", OPERANDS),
    ("predecessor not waited for", "griddepcontrol.wait;", "// griddepcontrol.wait;", GRAPH),
]  # fmt: skip


def plant(source: str) -> None:
    """Have the next launches run another source."""

    @cache
    def load(num_rows: int, num_inputs: int, device: int, *, gated: bool) -> CudaKernel:
        target = nvrtc.architecture(torch.cuda.get_device_capability(device))
        code = nvrtc.compile_cubin(source, target, macros(num_rows, num_inputs, gated=gated))
        return CudaKernel(code, "mixer_rows")

    launch.load = load


def compile_ahead(sources: list[str]) -> None:
    """Compile side by side what a law launches first; the rest is compiled as it comes."""
    target = nvrtc.architecture(torch.cuda.get_device_capability())
    jobs = [
        (source, macros(rows, WIDTHS[law or TWO], gated=gated))
        for rows in range(1, MOST_ROWS + 1)
        for gated in (False, True)
        for source, (*_, law) in zip(sources, FAULTS, strict=True)
    ]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda job: nvrtc.compile_cubin(job[0], target, job[1]), jobs))


def broken(wanted: str | None) -> list[str]:
    """The laws that are red, of the one that must see a fault, or of all."""
    tried = [law for law in LAWS if wanted in (None, law.name)]
    return [law.name for law in tried if law.broken("cuda")]


if __name__ == "__main__":
    sys.exit(try_all(FAULTS, launch.SOURCE, compile_ahead, plant, broken))
