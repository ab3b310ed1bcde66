"""Plant one fault at a time in the CUDA sources, run what must see it, print what turned red.

What a check launches is learnt from the healthy sources; the spoilt ones are then compiled side by
side. Needs a GPU. PYTHONPATH=. python tests/kernels/attention/verify_planted_script.py
"""

import json
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import MappingProxyType

from kernels.attention import prepared_laws, verify_launch, verify_laws
from kernels.attention.verify_problems import run_verify, verify_case
from kernels.attention.verify_truth import truth_verify
from kernels.common import nvrtc, proofs
from kernels.common.chips import Capability
from kernels.common.family import Op

TRUTH, ROWS = "within tolerance of fp64", "rows stand alone"
TREES = "random trees are the single steps of their rows"
PATHS = "what is not on a row's path does not reach it"
CODED_PATHS = f"{PATHS}, e4m3"
CLASSES = "no context class changes a bit"
PREPARED = "a verify sees what was prepared right before"
CODED_PREPARED = f"{PREPARED}, e4m3"
COLUMNS = "what is not finite stays in its column"
OPERANDS = "operands are those of the rows"
CODED_OPERANDS = f"{OPERANDS}, e4m3"

FAULTS = [
    # name, source, what it says, what it is made to say, what must turn red
    ("sums not scaled", "verify",
     "= __fmul_rn(values[n][i], by[i / 2])", "= values[n][i]", TRUTH),
    ("own key unseen", "verify",
     "return work.start + depths[", "return work.start - 1 + depths[", TRUTH),
    ("own values unseen", "verify",
     "position <= reach(work, matrix_row)", "position < reach(work, matrix_row)", TRUTH),
    ("paths not followed", "verify",
     "depth : paths[row * MAX_ROWS + depth]", "depth : depth", TREES),
    ("every verify a chain", "verify", "meet_all(in_order)", "meet_all(true)", TREES),
    ("infinite values not looked for", "verify",
     "tail.all_finite(ring.place(unit + FILLS), work.last - work.start + 1, lane)", "true", PATHS),
    ("infinite values that are laid in place not looked for", "verify",
     "return meet_all(finite);", "return meet_all(true);", PATHS),
    ("the last own row not laid in place", "verify",
     "at < end; at += WARPS", "at < end - 1; at += WARPS", PREPARED),
    ("the predecessor not waited for", "verify",
     "if constexpr (OVERLAP) await_predecessor();", ";", PREPARED),
    ("own rows fetched before they are written", "verify",
     "maps, rows);\n    await_predecessor();", "maps, rows);", PREPARED),
    ("own codes fetched before they are written", "verify_codes",
     "maps, rows);\n    await_predecessor();", "maps, rows);", CODED_PREPARED),
    ("what lies behind laid values kept", "verify",
     "at < TILE; at += WARPS", "at < end; at += WARPS", TRUTH),
    ("scores of later rows not hidden", "verify",
     "if (!full) hide_later(", "if (false) hide_later(", TRUTH),
    ("no pass takes its row", "verify",
     "(row == ALL || row == row_of(matrix_row))", "true", TREES),
    ("weights by row count", "verify",
     "weigh(scores, top, p.factor,",
     "weigh(scores, top, p.rows > 1 ? 1.001f * p.factor : p.factor,", ROWS),
    ("weights' sum off", "verify", "ONES = 0x3F803F80;", "ONES = 0x3F804000;", TRUTH),
    ("all launched chunks merged", "combine",
     "count = min(reached, p.chunks)", "count = p.chunks", CLASSES),
    ("a strand left out", "combine",
     "for (int i = 1; i < STRANDS; ++i)", "for (int i = 2; i < STRANDS; ++i)", TRUTH),
    ("every step of a wide product over the first values", "verify",
     "matrix_of(unit + k * 16 * BOX_ROW,", "matrix_of(unit,", TRUTH),
    ("every box of a wide product the first", "verify",
     "matrix_of(unit + k / 4 * BOX_BYTES + within,", "matrix_of(unit + within,", TRUTH),
    ("scale of keys forgotten", "verify_codes",
     "__fmul_rn(p.factor, p.key_scales[rows.group])", "p.factor", TRUTH),
    ("scale of values forgotten", "verify_codes",
     "value_scale = p.value_scales[rows.group]", "value_scale = 1.0f", TRUTH),
    ("queries in the order of BF16", "verify_codes",
     "{a.x, a.z, b.x, b.z}", "{a.x, a.y, a.z, a.w}", TRUTH),
    ("even columns for odd", "verify_codes", "n % 2 == 0 ? 0x20 : 0x31", "0x20", TRUTH),
    ("codes that are no number not looked for", "verify_codes",
     "+ 0x01010101) &", ") &", CODED_PATHS),
    ("gate forgotten", "combine", "1.0f + expf(-__bfloat162float(gate))", "1.0f", TRUTH),
    ("sums divided by the power of the other side", "verify",
     "powers[n / SIDE_TILES].down", "powers[V_SIDES - 1 - n / SIDE_TILES].down", TRUTH),
    ("powers not given back", "combine",
     "octet < OCTETS / SIDES ? powers[chunk].x : powers[chunk].y", "1.0f", TRUTH),
    ("every power that of the first side", "combine",
     "octet < OCTETS / SIDES ? powers[chunk].x : powers[chunk].y", "powers[chunk].x", TRUTH),
    ("powers so small that sums overflow", "verify",
     "{__uint_as_float((268u << 23) - exponent), __uint_as_float(exponent - (14u << 23))}",
     "{__uint_as_float((271u << 23) - exponent), __uint_as_float(exponent - (17u << 23))}", TRUTH),
    ("what is infinite cut to the largest number", "verify",
     "__fmul_rn(second, down)", "fminf(__fmul_rn(second, down), 65504.0f)", COLUMNS),
    ("what is infinite has a part in the power", "verify",
     "most[half][side] = largest<true>(side, half);", ";", COLUMNS),
    ("each warp's own power", "verify_codes",
     "power_of(fmaxf(fmaxf(most.x, most.y), fmaxf(most.z, most.w)))",
     "power_of(largest[row * WARPS + warp])", TRUTH),
    ("operands of every head in the first", "combine",
     "write_operands(p.next, row, column,", "write_operands(p.next, row, column % D,", OPERANDS),
    ("both pairs of a quad in one place", "combine",
     "column_of(t, 2 * i)", "column_of(t, 0)", OPERANDS),
    ("a quad's own largest", "combine", "SHARERS = KV_BYTES == 1 ? 2 : 4", "SHARERS = 1", OPERANDS),
    ("the largest of half an eight", "combine",
     "SHARERS = KV_BYTES == 1 ? 2 : 4", "SHARERS = 1", CODED_OPERANDS),
    ("the largest of even eights twice", "combine", "most[eight])", "most[0])", OPERANDS),
]  # fmt: skip

CASES = (
    verify_case(5, 1100, heads=6, groups=1),
    verify_case(6, 46, heads=6, groups=1, tree=1),
    verify_case(5, 62, heads=6, groups=1),
    verify_case(5, 5000, heads=6, groups=1),
    verify_case(5, 1100, heads=12, groups=2, coded=True),
)
FEW_TREES = MappingProxyType({False: 8, True: 4})

Check = Callable[[], bool]
"""Says whether it is red."""


def checks() -> dict[str, Check]:
    """Name what must see a fault: two proofs of the cases, and the laws."""
    op = Op(run_verify, truth_verify)
    proven = {TRUTH: proofs.within_tolerance, ROWS: proofs.rows_stand_alone}
    tried = {law.name: law.broken for law in (*verify_laws.LAWS, *prepared_laws.LAWS)}
    return {
        **{name: lambda proof=proof: any(proof(op, one, "cuda") for one in CASES)
           for name, proof in proven.items()},
        **{name: lambda broken=tried[name]: broken("cuda") is not None
           for name in (TREES, PATHS, CODED_PATHS, CLASSES, PREPARED, CODED_PREPARED, COLUMNS,
                        OPERANDS, CODED_OPERANDS)},
    }  # fmt: skip


def forget() -> None:
    """Have the next launch load its kernels anew."""
    verify_launch.load.cache_clear()
    verify_launch._plan.cache_clear()


Build = tuple[str, tuple[tuple[str, int], ...], bool, Capability]
"""Kernel, macros, overlap and compute capability, as `verify_launch.cubin` takes them."""


def builds_of(check: Check) -> list[Build]:
    """Run a check of healthy sources; list what it compiled."""
    seen: list[Build] = []
    compiled = verify_launch.cubin

    def noted(*build: *Build) -> bytes:
        seen.append(build)
        return compiled(*build)

    forget()
    verify_launch.cubin = noted
    try:
        assert not check(), "red without a fault"
    finally:
        verify_launch.cubin = compiled
    return seen


def main() -> None:
    """Print {fault: [what must be red, what of it is]}."""
    verify_laws.NUM_TREES = FEW_TREES
    folder, named = Path(verify_launch.__file__).parent, checks()
    kernels = ("verify", "verify_codes", "combine")
    sources = {name: nvrtc.read_source(folder / f"{name}.cu") for name in kernels}
    result: dict[str, list[object]] = {"nothing changed": [None, []]}
    with tempfile.TemporaryDirectory() as kept, ThreadPoolExecutor() as pool:
        nvrtc.keep_in(Path(kept))
        builds = {name: builds_of(check) for name, check in named.items()}
        work: list[Future[bytes]] = []
        for name, where, old, new, wanted in FAULTS:
            assert sources[where].count(old) == 1, f"{name}: not one place to plant it in"
            spoilt = sources[where].replace(old, new)
            for kernel, choices, overlap, capability in builds[wanted]:
                if kernel == where:
                    macros = {**dict(choices), "OVERLAP": int(overlap)}
                    target = nvrtc.architecture(capability)
                    work.append(pool.submit(nvrtc.compile_cubin, spoilt, target, macros))
        for one in work:
            one.result()
        for name, where, old, new, wanted in FAULTS:
            planted = {**sources, where: sources[where].replace(old, new)}
            nvrtc.read_source = lambda path, planted=planted: planted[path.stem]
            forget()
            red = named[wanted]()
            result[name] = [wanted, [wanted] if red else []]
            sys.stderr.write(f"{'seen' if red else 'MISSED'} {name}: {wanted}\n")
    json.dump(result, sys.stdout)


if __name__ == "__main__":
    main()
