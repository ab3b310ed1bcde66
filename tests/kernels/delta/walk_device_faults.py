"""Plant one fault at a time in the walk's CUDA source on a GPU, print what turns red of each.

PYTHONPATH=. python tests/kernels/delta/walk_device_faults.py

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
from kernels.delta.problems import fold_case, walk_case
from kernels.delta.tile import macros
from tests.kernels.device_faults import Fault, try_all

MODEL, TRUTH, GRAPH = "bits of the model", "within tolerance of fp64", "graph equals eager"
CHAINS, TREES, _, _, NAN, OVERLAP, GATE, _, _ = (law.name for law in LAWS)

FAULTS: list[Fault] = [
    ("nothing changed", "const int last = p.rows - 1;", "const int last = p.rows - 1;", None),
    ("the half that is written folded", "MAX_ROWS - half", "half", TRUTH),
    ("the last pending row forgotten", "for (int i = 0; i < p.count;",
     "for (int i = 0; i + 1 < p.count;", TRUTH),
    ("the fold forgets to decay", "advance(s, __shfl_sync(ALL, decays, i)", "advance(s, 1.0f",
     TRUTH),
    ("the folded state not stored", "    store_tile(s, p.state, at);\n  }", "  }", TRUTH),
    ("always the first half", "const int half = parity * MAX_ROWS;", "const int half = 0;", TRUTH),
    ("branches go on from the row before", "if (restored >> i & 1)", "if (false)", TREES),
    ("the last row goes on from the row before", "if (restored >> last & 1)", "if (false)", TREES),
    ("one slot for all branches", "__shfl_sync(ALL, save, i)", "0", TREES),
    ("half the lanes added", "lanes < 32; lanes *= 2", "lanes < 16; lanes *= 2", TRUTH),
    ("products rounded before they are added", "__fmaf_rn(s[i][c], x[i], even[c])",
     "__fadd_rn(__fmul_rn(s[i][c], x[i]), even[c])", MODEL),
    ("lanes pass on what they keep", "odd ? sum[0] : sum[1]", "odd ? sum[1] : sum[0]", TRUTH),
    ("lanes of a column added in another order", "exchanged(own, own, 4 * COLUMN_LANES)",
     "__fadd_rn(own, __shfl_xor_sync(ALL, own, 5 * COLUMN_LANES))", TRUTH),
    ("the update contracted otherwise", "__fmaf_rn(k[i], u[c], __fmul_rn(decay, s[i][c]))",
     "__fmaf_rn(decay, s[i][c], __fmul_rn(k[i], u[c]))", MODEL),
    ("every column changed by the first one's u", "own, c * COLUMN_LANES + lane", "own, lane",
     TRUTH),
    ("u not written", "*to.u = u, *to.out", "*to.out", TRUTH),
    ("u and output swapped", "*to.u = u, *to.out = __float2bfloat16_rn(o)",
     "*to.u = o, *to.out = __float2bfloat16_rn(u)", TRUTH),
    ("keys of another head", "head / heads_per_key", "head % 2", TRUTH),
    ("beta forgotten", "__bfloat162float(row.v)), beta)", "__bfloat162float(row.v)), 1.0f)", TRUTH),
    ("single steps decay otherwise", "float decay = __shfl_sync(ALL, decays, last)",
     "float decay = (p.rows == 1 ? 1.0000001f : 1.0f) * __shfl_sync(ALL, decays, last)", CHAINS),
    ("predecessor not waited for", "griddepcontrol.wait;", "// griddepcontrol.wait;", OVERLAP),
    ("the squares of one tile alone", "i < TILES ? head.squares", "i < 1 ? head.squares", MODEL),
    ("squares added in a chain", "for (int step = 1; step < N; step *= 2)",
     "for (int i = 1; i < N; ++i) x[0] = __fadd_rn(x[0], x[i]);\n  for (int step = N; false;)",
     GATE),
    ("the product with the weight not rounded", "if (!gate.wide_weight) scaled =",
     "if (false) scaled =", MODEL),
    ("gates of the row before", "own.z + row * TILE_COLUMNS + within",
     "own.z + max(row - 1, 0) * TILE_COLUMNS + within", GATE),
    ("a NaN reaches other columns", "met = over_lanes(part_of_product(row.k, row.q))",
     "met = over_lanes(part_of_product(row.k, row.q)) + 0.0f * __shfl_xor_sync(ALL, found.seen, 4)",
     NAN),
]  # fmt: skip


def plant(source: str) -> None:
    """Have the next launches run another source, gated walks as well."""

    @cache
    def load(name: str, key_dim: int, value_dim: int, device: int, *, gated: bool) -> CudaKernel:
        target = nvrtc.architecture(torch.cuda.get_device_capability(device))
        code = nvrtc.compile_cubin(source, target, macros(key_dim, value_dim, gated=gated))
        return CudaKernel(code, name)

    walk_launch.load = load
    walk_launch._goes_by_teams = lambda *_, gated: False


def broken(wanted: str | None) -> list[str]:
    """What is red of a comb with pending rows, a bush, a gated walk and a fold, or of the laws.

    Args:
        wanted: a proof or law to try alone: the laws end at the first difference, so what is red
            is soon found. None for all proofs.
    """
    walks = [walk_case(9, 2, 6, shape=shape, pending=3, parity=1) for shape in ("comb", "bush")]
    walks.append(walk_case(9, 2, 6, pending=3, weight=torch.bfloat16))
    tried = (MODEL, TRUTH, GRAPH) if wanted is None else {MODEL, TRUTH, GRAPH} & {wanted}
    red = {
        name
        for case in (*walks, fold_case(2, 2, 6, 3))
        for name in tried
        if proofs.CUDA[name](FAMILY.ops[case.op], case, "cuda")
    }
    return sorted(red | {law.name for law in LAWS if law.name == wanted and law.broken("cuda")})


def compile_ahead(sources: list[str]) -> None:
    """Compile side by side what most proofs launch; the rest is compiled as it comes."""
    sizes = [macros(128, 128, gated=gated) for gated in (False, True)]
    target = nvrtc.architecture(torch.cuda.get_device_capability())
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for chosen in sizes:
            list(pool.map(partial(nvrtc.compile_cubin, target=target, macros=chosen), sources))


if __name__ == "__main__":
    sys.exit(try_all(FAULTS, walk_launch.SOURCE, compile_ahead, plant, broken))
