"""Plant one fault at a time in the CUDA source of a round's rows on a GPU, print what turns red.

PYTHONPATH=. python tests/kernels/conv/conv_device_faults.py

`test_conv_planted_faults.py` keeps the list true to the source where there is no GPU.
"""

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import torch

from kernels.common import nvrtc, proofs
from kernels.common.cuda_kernel import CudaKernel
from kernels.conv import laws, problems, rows_launch
from kernels.conv.cases import FAMILY
from tests.kernels.device_faults import Fault, try_all

MODEL, TRUTH = "bits of the model", "within tolerance of fp64"
ROWS, GRAPH, OVERLAP = (laws.LAWS[one].name for one in (0, -2, -1))
CASES = [
    problems.gates_case(13, (2, 6), num_pending=3, parity=1, num_inputs=768, interpreted=False),
    problems.gates_case(16, (2, 6), num_pending=1, num_inputs=5120, interpreted=False),
]

FAULTS: list[Fault] = [
    ("nothing changed", "uint2 window[WINDOW];", "uint2 window[WINDOW];", None),
    ("taps turned round", "taps[c][i]));", "taps[c][WINDOW - 1 - i]));", MODEL),
    ("pending rows not in the window", ": at >= 0  ? p.raw", ": false ? p.raw", MODEL),
    ("a row follows the one before it", "place >= 0 ? follows : place - 1", "place - 1", MODEL),
    ("what is convolved not rounded", "total[c] = rounded(total[c]);", ";", MODEL),
    ("squares added in another order", "int lanes = 1; lanes < 32; lanes *= 2",
     "int lanes = 16; lanes > 0; lanes /= 2", MODEL),
    ("queries as long as keys", "QUERY_LENGTH = 0.08838834764831845f", "QUERY_LENGTH = 1.0f",
     MODEL),
    ("no tail behind the pending rows", "if (row > 0) continue;", "continue;", MODEL),
    ("a tail for every row", "if (row > 0) continue;", ";", MODEL),
    ("always the first half", "*p.parity * MAX_ROWS, channel", "0 * MAX_ROWS, channel", MODEL),
    ("keys of the next head", "((half + row) * p.key_heads + head)",
     "((half + row) * p.key_heads + (head + 1) % p.key_heads)", MODEL),
    ("each row of a warp as its first", "++row, pieces += WINDOW", "++row", MODEL),
    ("the last of four rows as the third", "first + 2 * i - 2 + half, p",
     "first + min(2 * i - 2 + half, 2), p", MODEL),
    ("b of the next head", "(half * p.value_heads + head) * p.weight",
     "(half * p.value_heads + (head + half) % p.value_heads) * p.weight", MODEL),
    ("old rows not asked for", "fetch(pieces, source, true,", "fetch(pieces, source, false,",
     MODEL),
    ("the last warp's sums forgotten", "__fadd_rn(sums[2][thread], sums[3][thread])",
     "sums[2][thread]", MODEL),
    ("a | b not rounded", "const float all = rounded(", "const float all = (", MODEL),
    ("a write share not rounded", "rounded(__fdiv_rn(1.0f,", "(__fdiv_rn(1.0f,", MODEL),
    ("gates of even numbers of rows otherwise", "const float all = rounded(",
     "const float all = (p.rows % 2 ? 1.0f : 1.01f) * rounded(", ROWS),
    ("the predecessor not waited for", "griddepcontrol.wait;", "// griddepcontrol.wait;", OVERLAP),
]  # fmt: skip


def plant(source: str) -> None:
    """Have the next launches run another source."""

    @cache
    def load(num_inputs: int, device: int) -> CudaKernel:
        target = nvrtc.architecture(torch.cuda.get_device_capability(device))
        code = nvrtc.compile_cubin(source, target, {"INPUTS": num_inputs})
        return CudaKernel(code, "conv_rows")

    rows_launch.load = load


def compile_ahead(sources: list[str]) -> None:
    """Compile side by side what the cases launch; the rest is compiled as it comes."""
    target = nvrtc.architecture(torch.cuda.get_device_capability())
    jobs = [(source, {"INPUTS": inputs}) for inputs in (768, 5120) for source in sources]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda job: nvrtc.compile_cubin(job[0], target, job[1]), jobs))


def broken(wanted: str | None) -> list[str]:
    """What is red of two rounds with pending rows, or of the laws: all, or one alone."""
    tried = (MODEL, TRUTH) if wanted is None else {MODEL, TRUTH} & {wanted}
    red = {
        name
        for case in CASES
        for name in tried
        if proofs.CUDA[name](FAMILY.ops[case.op], case, "cuda")
    }
    named = [
        law for law in laws.LAWS if law.name in ({wanted} if wanted else {ROWS, GRAPH, OVERLAP})
    ]
    return sorted(red | {law.name for law in named if law.broken("cuda")})


if __name__ == "__main__":
    laws.DRAWS["cuda"] = laws.DRAWS["cuda"][1:]
    sys.exit(try_all(FAULTS, rows_launch.SOURCE, compile_ahead, plant, broken))
