"""Plant one fault at a time in the chunked form's CUDA sources on a GPU, print what turns red.

PYTHONPATH=. python tests/kernels/delta/prefill_device_faults.py

`test_prefill_model.py` keeps the lists true to the sources where there is no GPU.
"""

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial

import torch

from kernels.common import nvrtc, proofs
from kernels.common.chips import has_wgmma
from kernels.common.cuda_kernel import CudaKernel
from kernels.delta import prefill_launch
from kernels.delta.prefill_cases import LAWS, OPS
from kernels.delta.prefill_problems import ALIKE, NO_DECAY, REPEATED, WHOLE, prefill_case
from kernels.delta.prefill_tile import CHUNK_SHARED_BYTES, PrefillTile
from tests.kernels.device_faults import Fault, try_all

TRUTH, GRAPH = "within tolerance of fp64", "graph equals eager"
CUTS, _, STRIDES, NEAR = (law.name for law in LAWS)

CHUNK_MACROS = {"SHARED_BYTES": CHUNK_SHARED_BYTES}
OWN_CHUNK, OWN_WALK = prefill_launch.load_chunk, prefill_launch.load_walk

CHUNK_FAULTS: list[Fault] = [
    ("nothing changed", "const float both = g[0] + g[1];", "const float both = g[0] + g[1];", None),
    ("g of rows behind the last", "row < p.rows ? p.g[row * p.g_row + head] : 0.0f", "-1.0f",
     TRUTH),
    ("half a scan of g", "step < 32; step *= 2", "step < 16; step *= 2", TRUTH),
    ("keys not of length one", "alike[2 * j][0]) + p.eps", "alike[2 * j][0]) * 1.01f + p.eps",
     TRUTH),
    ("half the queries not of length one", "squares[1][3] : squares[1][2]",
     "squares[0][1] : squares[0][0]", TRUTH),
    ("a token sees itself written twice", "ask[c] = i >= j ? asked[n]",
     "ask[c] = i >= j ? (i == j ? 2.0f : 1.0f) * asked[n]", TRUTH),
    ("a token does not see itself", "ask[c] = i >= j ?", "ask[c] = i > j ?", TRUTH),
    ("a diagonal block half solved", "j < SIDE - 1; ++j", "j < SIDE / 2; ++j", TRUTH),
    ("the diagonal's inverse without its tail", "= is_tail ? tail : head",
     "= is_tail ? __float2bfloat16_rn(0.0f) : head", NEAR),
    ("products lose the right tail", "multiply(to.small[0], to.small[1], left.head, tail);", ";",
     NEAR),
    ("products lose the left tail", "multiply(to.small[0], to.small[1], left.tail, head);", ";",
     NEAR),
    ("blocks met by the first one alone", "for (int m = 0; m < n; ++m)",
     "for (int m = 0; m < 1; ++m)", TRUTH),
    ("mix of the diagonal alone", "for (int m = 0; m <= n; ++m)", "for (int m = n; m <= n; ++m)",
     TRUTH),
    ("beta only for columns", "-shared.beta[row[r]] * shared.k_scale[row[r]]",
     "-shared.k_scale[row[r]]",
     TRUTH),
    ("write loses its tail", "store_word(matrix[1] + at, tail)", "store_word(matrix[1] + at, 0)",
     NEAR),
    ("gates of the head beside", "gates_of(shared.faded, shared.beta, p, head,",
     "gates_of(shared.faded, shared.beta, p, head ^ 1,", TRUTH),
    ("the state faded by half a chunk", "last = shared.faded[CHUNK - 1]",
     "last = shared.faded[CHUNK / 2]", TRUTH),
]  # fmt: skip

WALK_FAULTS: list[Fault] = [
    ("nothing changed", "Left parts[STEPS];", "Left parts[STEPS];", None),
    ("the state's tails not read", "multiply(sums[2 * i], sums[2 * i + 1], state.tail, right[i]);",
     ";", TRUTH),
    ("the written half of the state not split again", "if (i < STEPS / 2) split(",
     "if (i < STEPS / 2 && chunk == 0) split(", TRUTH),
    ("writes lose their tails",
     "multiply(state[first + 2 * i], state[first + 2 * i + 1], wrote[j].tail, right[i]);", ";",
     TRUTH),
    ("what is left of values loses its tails",
     "multiply(sums[2 * i], sums[2 * i + 1], rest.tail, head);", ";", NEAR),
    ("write and mix lose their tails", "multiply(sums[2 * i], sums[2 * i + 1], rest.head, tail);",
     ";", NEAR),
    ("state not faded", "state[i][x] *= fade;", ";", TRUTH),
    ("keys' factors of the tokens before", "(factors + block * SIDE + 8 +",
     "(factors + block * SIDE +", TRUTH),
    ("outputs of the column beside", "tile[x % 2 * 2 + 1]), \"f\"(tile[x % 2 * 2])",
     "tile[x % 2 * 2]), \"f\"(tile[x % 2 * 2 + 1])", TRUTH),
    ("queries' factors of the token beside", "out[i][x] *= x % 2 ? f.y : f.x;",
     "out[i][x] *= x % 2 ? f.x : f.y;", TRUTH),
    ("keys of another head", "const int key = head / p.heads_a_key", "const int key = head % 2",
     TRUTH),
    ("always the first buffer of keys", "&shared.k[chunk % 2]", "&shared.k[0]", TRUTH),
]  # fmt: skip

WGMMA_FAULTS: list[Fault] = [
    ("nothing changed", "Left parts[STEPS], rest[BLOCKS];", "Left parts[STEPS], rest[BLOCKS];",
     None),
    ("the state's tails not read", "(sums, parts[i].tail, right, i > 0);",
     "(sums, parts[i].head, right, i > 0);", TRUTH),
    ("the second half of the state not split again", "split_half<STEPS / 2>(parts, state);",
     "if (chunk == 0) split_half<STEPS / 2>(parts, state);", TRUTH),
    ("writes lose their tails", "(state, written[j].tail, right, 1);",
     "(state, written[j].head, right, 1);", TRUTH),
    ("corners forgotten", "+= corner[i / 2][i % 2][x]", "+= 0.0f", TRUTH),
    ("what is left of values without tails", "{&rest[0].tail, &rest[1].tail,",
     "{&rest[0].head, &rest[1].head,", TRUTH),
    ("state not faded", "state[i][x] *= fade;", ";", TRUTH),
    ("keys of the other half of the channels", "rows + i / 4 * HALF_BYTES", "rows", TRUTH),
    ("queries' factors of the token beside", "__fmaf_rn(x % 2 ? f.y : f.x",
     "__fmaf_rn(x % 2 ? f.x : f.y", TRUTH),
    ("keys written by the tokens before", "keys + HALF * HALF_BYTES + j * SIDE * LINE_BYTES",
     "keys + HALF * HALF_BYTES", TRUTH),
]  # fmt: skip


def plant_in_chunk(source: str) -> None:
    """Have the next launches prepare chunks by another source."""

    @cache
    def load_chunk(device: int) -> CudaKernel:
        return CudaKernel(_compiled(source, CHUNK_MACROS), "delta_prefill_chunk")

    prefill_launch.load_chunk = load_chunk


def plant_in_walk(source: str, *, wgmma: bool) -> None:
    """Have the next launches walk by another source: all, or those by four warps together."""

    @cache
    def load_walk(tile: PrefillTile, device: int) -> CudaKernel:
        if wgmma and not tile.wgmma:
            return OWN_WALK(tile, device)
        return CudaKernel(_compiled(source, tile.macros()), "delta_prefill_walk")

    prefill_launch.load_walk = load_walk


def broken(wanted: str | None) -> list[str]:
    """What is red of unlike, alike and repeated keys, or of the laws: all, or one alone."""
    cases = (
        prefill_case(150, 2, 6),
        prefill_case(130, 1, 2, keys=ALIKE, betas=WHOLE),
        prefill_case(64, 1, 1, keys=REPEATED, betas=WHOLE, gates=NO_DECAY),
    )
    tried = (TRUTH, GRAPH) if wanted is None else {TRUTH, GRAPH} & {wanted}
    red = {
        name for case in cases for name in tried if proofs.CUDA[name](OPS[case.op], case, "cuda")
    }
    named = {CUTS, STRIDES, NEAR} if wanted is None else {wanted}
    return sorted(red | {law.name for law in LAWS if law.name in named and law.broken("cuda")})


def compile_ahead(sources: list[str], macros: dict[str, int]) -> None:
    """Compile side by side what most proofs launch."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(partial(_compiled, macros=macros), sources))


def _compiled(source: str, macros: dict[str, int]) -> bytes:
    target = nvrtc.architecture(torch.cuda.get_device_capability())
    return nvrtc.compile_cubin(source, target, macros)


if __name__ == "__main__":
    macros = prefill_launch.tile_of(torch.cuda.current_device()).macros()
    missed = try_all(
        CHUNK_FAULTS, prefill_launch.CHUNK_SOURCE, partial(compile_ahead, macros=CHUNK_MACROS),
        plant_in_chunk, broken,
    )  # fmt: skip
    prefill_launch.load_chunk = OWN_CHUNK
    missed += try_all(
        WALK_FAULTS, prefill_launch.WALK_SOURCE, partial(compile_ahead, macros=macros),
        partial(plant_in_walk, wgmma=False), broken,
    )  # fmt: skip
    if has_wgmma(torch.cuda.get_device_capability()):
        missed += try_all(
            WGMMA_FAULTS, prefill_launch.WGMMA_WALK_SOURCE, partial(compile_ahead, macros=macros),
            partial(plant_in_walk, wgmma=True), broken,
        )  # fmt: skip
    sys.exit(missed)
