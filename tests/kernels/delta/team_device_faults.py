"""Plant one fault at a time in the source of the gated walk by teams, print what turns red.

PYTHONPATH=. python tests/kernels/delta/team_device_faults.py

`test_walk_planted_faults.py` keeps the list true to the source where there is no GPU.
"""

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial

import torch

from kernels.common import nvrtc, proofs
from kernels.common.cuda_kernel import CudaKernel
from kernels.delta import walk_launch
from kernels.delta.cases import FAMILY
from kernels.delta.laws import LAWS
from kernels.delta.problems import walk_case
from kernels.delta.team import macros
from tests.kernels.device_faults import Fault, try_all

MODEL, TRUTH, GRAPH = "bits of the model", "within tolerance of fp64", "graph equals eager"
_, _, _, _, _, OVERLAP, GATE, OPERANDS, _ = (law.name for law in LAWS)

STORED = """  (tells_u ? shared.found[row].u : shared.found[row].asked)[at.own - first] = \
tells_u ? changed.u : changed.asked;
"""
TOLD = """  __syncwarp();
  arrive_if(ends_chunk && lane == 0, shared.walked[row / CHUNK]);
"""

FAULTS: list[Fault] = [
    ("nothing changed", "Tile s;", "Tile s;", None),
    ("the half that is written folded", "other = MAX_ROWS - parity * MAX_ROWS",
     "other = parity * MAX_ROWS", TRUTH),
    ("pending rows of the half that is written", "p.record, MAX_ROWS - half, pending",
     "p.record, half, pending", TRUTH),
    ("the last pending row forgotten", "for (int i = 0; i < count;",
     "for (int i = 0; i + 1 < count;", TRUTH),
    ("the folded state not stored", "    store_tile(s, p.state, at);\n", ";", TRUTH),
    ("always the first half", "const int half = *p.record.parity * MAX_ROWS", "const int half = 0",
     TRUTH),
    ("branches go on from the row before", "if (restored >> i & 1)", "if (false)", MODEL),
    ("one slot for all branches", "__shfl_sync(ALL, save, i)", "0", MODEL),
    ("no state restored", "lane < p.rows && restore >= 0", "false", MODEL),
    ("lanes pass on what they keep", "odd ? sum[0] : sum[1]", "odd ? sum[1] : sum[0]", TRUTH),
    ("lanes of a column added in another order", "exchanged(own, own, 4 * COLUMN_LANES)",
     "__fadd_rn(own, __shfl_xor_sync(ALL, own, 5 * COLUMN_LANES))", TRUTH),
    ("k.q of half the keys", "lanes < KEY_LANES; lanes *= 2", "lanes < 4; lanes *= 2", TRUTH),
    ("every column changed by the first one's u", "own, c * COLUMN_LANES + lane", "own, lane",
     TRUTH),
    ("the state decays in the query's turn", "s[i + 1][c] = __fmul_rn(decay, s[i + 1][c]);", ";",
     TRUTH),
    ("beta forgotten", "(from.v)), from.gates.beta)", "(from.v)), 1.0f)", TRUTH),
    ("u not written", "u_to[1] = {", "(void)float4{", TRUTH),
    ("the first query twice", "if (i > 0) {", "if (i >= 0) {", TRUTH),
    ("a chunk told of before it is there", STORED + TOLD, TOLD + "  __nanosleep(20000);\n" + STORED,
     MODEL),
    ("keys of another head", "head / (p.value_heads / p.key_heads), first", "0, first", TRUTH),
    ("values of the other half of a head", "at.head * VALUE_DIM + at.first + lane * 8",
     "at.head * VALUE_DIM + lane * 8", TRUTH),
    ("predecessor not waited for", "griddepcontrol.wait;", "// griddepcontrol.wait;", OVERLAP),
    ("the squares of one block alone", "__fadd_rn(sum, told.squares[row])", "sum", MODEL),
    ("squares added in another order", "int lanes = 1; lanes < ROW_LANES; lanes *= 2",
     "int lanes = ROW_LANES / 2; lanes > 0; lanes /= 2", GATE),
    ("the product with the weight not rounded", "if (!gate.wide_weight) round", "if (false) round",
     MODEL),
    ("gates of the row before", "to.gate.z + row * to.gate.z_stride",
     "to.gate.z + max(row - 1, 0) * to.gate.z_stride", GATE),
    ("operands of the row before", "write_operands(to.gate.next, result, row,",
     "write_operands(to.gate.next, result, max(row - 1, 0),", OPERANDS),
]  # fmt: skip


def plant(source: str) -> None:
    """Have the next launches run another source."""

    @cache
    def load_team(key_dim: int, value_dim: int, device: int, *, gated: bool) -> CudaKernel:
        target = nvrtc.architecture(torch.cuda.get_device_capability(device))
        code = nvrtc.compile_cubin(source, target, macros(key_dim, value_dim, gated=gated))
        return CudaKernel(code, "delta_walk_team")

    walk_launch.load_team = load_team


def broken(wanted: str | None) -> list[str]:
    """What is red of a gated comb and bush with pending rows, or of the laws: all, or one alone."""
    weight = torch.bfloat16
    cases = [
        walk_case(9, 2, 4, shape=shape, pending=3, parity=1, weight=weight)
        for shape in ("comb", "bush")
    ]
    tried = (MODEL, TRUTH, GRAPH) if wanted is None else {MODEL, TRUTH, GRAPH} & {wanted}
    red = {
        name
        for case in cases
        for name in tried
        if proofs.CUDA[name](FAMILY.ops[case.op], case, "cuda")
    }
    named = {OVERLAP, GATE, OPERANDS} if wanted is None else {wanted}
    return sorted(red | {law.name for law in LAWS if law.name in named and law.broken("cuda")})


def compile_ahead(sources: list[str]) -> None:
    """Compile side by side what all proofs launch."""
    target = nvrtc.architecture(torch.cuda.get_device_capability())
    compiled = partial(nvrtc.compile_cubin, target=target, macros=macros(128, 128, gated=True))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(compiled, sources))


if __name__ == "__main__":
    sys.exit(try_all(FAULTS, walk_launch.TEAM_SOURCE, compile_ahead, plant, broken))
