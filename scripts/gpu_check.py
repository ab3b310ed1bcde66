"""Check kernel families on a CUDA machine, then time them, then sweep their tiles.

    python scripts/gpu_check.py [--seconds 85] [--json FILE]

Prints a table a section; a section that fails is recorded and the next one runs. Needs torch,
triton and numpy only. Exit code 1 when a check is red, a section failed or a bar is missed.
"""

import argparse
import functools
import json
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch
import triton

from engine.check import render, run_checks
from engine.measure import cache_bytes, launch_time, read_bandwidth_gbps
from kernels.common.case import Case, Tensors
from kernels.common.compare import bf16_steps, share_of_different_bits
from kernels.common.timing import Timing, num_cold_copies, time_calls, time_checked
from kernels.common.verdict import Report
from kernels.norm.cases import EPS, FAMILY, add_case, gated_case, rms_case
from kernels.norm.op import add_rms_norm, gated_rms_norm, rms_norm
from kernels.norm.reference import gated_rms_norm_reference, rms_norm_reference
from kernels.norm.tile import NormTile, candidates, default

BAR = 1.5
"""Issue 4: a norm kernel takes at most this many times its launch-plus-bytes floor."""

TIMED = (
    *(make(rows, 5120) for make in (rms_case, add_case) for rows in (1, 16, 32, 1500)),
    *(rms_case(24 * rows, 256) for rows in (1, 16, 1500)),
    *(gated_case(rows, 48) for rows in (1, 16, 32, 1500)),
)
SWEPT = (
    *(make(rows, 5120) for make in (rms_case, add_case) for rows in (1, 16)),
    *(gated_case(rows, 48) for rows in (1, 16, 1500)),
    *(rms_case(24 * rows, 256) for rows in (1, 16, 1500)),
    *(make(16, width) for width in (4096, 2560, 2048, 1024) for make in (rms_case, add_case)),
    *(add_case(rows, 256) for rows in (1, 16)),
)


class Copies:
    """Copies of one case's tensors, enough to find each of them cold."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.num_bytes = case.read_bytes + case.written_bytes
        self.num_copies = num_cold_copies(self.num_bytes, cache_bytes("cuda"))
        drawn = case.draw(0, "cuda")
        self.inputs = [
            {name: tensor.clone() for name, tensor in drawn.items()} for _ in range(self.num_copies)
        ]
        self.outputs = [case.poisoned_outputs("cuda").tensors for _ in range(self.num_copies)]

    @property
    def cold(self) -> bool:
        """True when the copies exceed the last-level cache."""
        return self.num_copies * self.num_bytes > cache_bytes("cuda")

    def time(self, report: Report, tile: NormTile | None) -> Timing:
        """Time the case's function on the copies in turn, from a graph."""
        calls = [
            lambda i=i, o=o: LAUNCH[self.case.op](i, o, tile)
            for i, o in zip(self.inputs, self.outputs, strict=True)
        ]
        return time_checked(report, FAMILY.name, calls, "cuda")


def launch_rms(inputs: Tensors, outputs: Tensors, tile: NormTile | None) -> None:
    """Call rms_norm with a tile."""
    rms_norm(inputs["x"], inputs["weight"], EPS, tile=tile, out=outputs["out"])


def launch_add(inputs: Tensors, outputs: Tensors, tile: NormTile | None) -> None:
    """Call add_rms_norm with a tile."""
    add_rms_norm(
        inputs["x"],
        inputs["residual"],
        inputs["weight"],
        EPS,
        tile=tile,
        out=outputs["out"],
        residual_out=outputs["residual_out"],
    )


def launch_gated(inputs: Tensors, outputs: Tensors, tile: NormTile | None) -> None:
    """Call gated_rms_norm with a tile."""
    gated_rms_norm(
        inputs["x"], inputs["gate"], inputs["weight"], EPS, tile=tile, out=outputs["out"]
    )


LAUNCH = {"rms_norm": launch_rms, "add_rms_norm": launch_add, "gated_rms_norm": launch_gated}


def time_library_copy(copies: Copies) -> Timing:
    """Time PyTorch's copy of as many bytes: one launch, one trip through memory, no sum."""
    num_elements = copies.num_bytes // 2 // torch.bfloat16.itemsize
    make = functools.partial(torch.zeros, num_elements, dtype=torch.bfloat16, device="cuda")
    pairs = [(make(), make()) for _ in range(copies.num_copies)]
    return time_calls([lambda a=a, b=b: b.copy_(a) for a, b in pairs], "cuda")


def machine() -> dict[str, Any]:
    """Name the GPU and the software."""
    properties = torch.cuda.get_device_properties()
    facts = {
        "gpu": properties.name,
        "capability": f"{properties.major}.{properties.minor}",
        "l2_bytes": cache_bytes("cuda"),
        "torch": torch.__version__,
        "triton": triton.__version__,
        "python": sys.version.split()[0],
        "date": time.strftime("%Y-%m-%d %H:%M"),
    }
    print(facts)
    return facts


def limits() -> dict[str, float]:
    """Measure read bandwidth and the time of an empty launch."""
    facts = {"read_gbps": read_bandwidth_gbps("cuda"), "launch_us": launch_time().median_us}
    print(f"read {facts['read_gbps']:.0f} GB/s, empty launch {facts['launch_us']:.2f} us a node")
    return facts


def references() -> list[dict[str, Any]]:
    """Count how far the kernels are from the references whose sums run in torch's order."""
    rows: list[dict[str, Any]] = []
    for case in (rms_case(1500, 5120), gated_case(1500, 48)):
        inputs = case.draw(0, "cuda")
        x, weight = inputs["x"], inputs["weight"]
        if case.op == "rms_norm":
            got, want = rms_norm(x, weight, EPS), rms_norm_reference(x.cpu(), weight.cpu(), EPS)
        else:
            gate = inputs["gate"]
            got = gated_rms_norm(x, gate, weight, EPS)
            want = gated_rms_norm_reference(x.cpu(), gate.cpu(), weight.cpu(), EPS)
        share = share_of_different_bits(got, want)
        steps = int(bf16_steps(got.cpu(), want).max())
        rows.append({"op": case.op, "case": case.label, "share": share, "max_steps": steps})
        print(f"{case.op:<16}{case.label:<26}{share:.2e} of bits differ, {steps} steps at most")
    return rows


def times(report: Report) -> list[dict[str, Any]]:
    """Time every case of TIMED with its default tile against the floor."""
    read_gbps, launch_us = read_bandwidth_gbps("cuda"), launch_time().median_us
    rows: list[dict[str, Any]] = []
    print(
        f"{'function':<16}{'case':<26}{'us':>8}{'low':>8}{'high':>8}{'floor':>8}{'ratio':>7}"
        f"{'copy us':>9}{'GB/s':>7}{'share':>7}  cold"
    )
    for case in TIMED:
        copies = Copies(case)
        num_bytes = copies.num_bytes
        timing, copy = copies.time(report, None), time_library_copy(copies)
        floor_us = launch_us + num_bytes / read_gbps / 1e3
        row: dict[str, Any] = {
            "op": case.op,
            "case": case.label,
            "us": timing.median_us,
            "low_us": timing.low_us,
            "high_us": timing.high_us,
            "floor_us": floor_us,
            "ratio": timing.median_us / floor_us,
            "copy_us": copy.median_us,
            "gbps": timing.gbps(num_bytes),
            "share": timing.share(num_bytes, read_gbps),
            "cold": copies.cold,
        }
        rows.append(row)
        print(
            f"{case.op:<16}{case.label:<26}{row['us']:>8.2f}{row['low_us']:>8.2f}"
            f"{row['high_us']:>8.2f}{floor_us:>8.2f}{row['ratio']:>7.2f}{row['copy_us']:>9.2f}"
            f"{row['gbps']:>7.0f}{row['share']:>7.0%}  {'yes' if row['cold'] else 'no'}"
        )
    return rows


def sweep(report: Report, deadline: float) -> list[dict[str, Any]]:
    """Time the candidate tiles of every case of SWEPT, until the deadline."""
    rows: list[dict[str, Any]] = []
    for case in SWEPT:
        if time.monotonic() > deadline:
            print(f"stopped by --seconds before {case.op} {case.label}")
            break
        copies, width = Copies(case), case.sizes["D"]
        timed = {tile: copies.time(report, tile).median_us for tile in candidates(width)}
        for tile, us in timed.items():
            row = {"warps": tile.num_warps, "rows": tile.rows_per_program, "us": us}
            rows.append({"op": case.op, "case": case.label, "width": width, **row})
        ranked = sorted(timed, key=timed.__getitem__)
        best = "  ".join(
            f"{tile.num_warps}w{tile.rows_per_program}r {timed[tile]:.2f}" for tile in ranked[:4]
        )
        us = timed[default(width)]
        print(f"{case.op:<16}{case.label:<26}default {us:.2f}  best {best}")
    return rows


Result = TypeVar("Result")


class Run:
    """Sections of a run: what each returned, and what went wrong."""

    def __init__(self) -> None:
        self.results: dict[str, Any] = {}
        self.errors: dict[str, str] = {}

    def section(self, name: str, work: Callable[[], Result]) -> Result | None:
        """Run a section; keep its result or its traceback."""
        print(f"\n== {name}", flush=True)
        start = time.monotonic()
        try:
            result = self.results[name] = work()
        except Exception:  # noqa: BLE001  one section's failure must not cost the others' figures
            self.errors[name] = traceback.format_exc()
            print(self.errors[name])
            result = None
        print(f"-- {time.monotonic() - start:.1f} s", flush=True)
        return result


def check_norms(run: Run) -> Report:
    """Check the family and keep the findings in words."""
    report = run_checks([FAMILY.name], "cuda")
    print(render(report))
    run.results["findings"] = {"count": len(report.findings), "red": [str(f) for f in report.red]}
    return report


def main() -> int:
    """Run all sections; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=85.0, help="sweeps stop after this long")
    parser.add_argument("--json", type=Path, help="file for all figures")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("no CUDA device here; `qwen38 check --device cpu` checks without one")
    deadline = time.monotonic() + arguments.seconds
    run = Run()
    run.section("machine", machine)
    run.section("limits", limits)
    report = run.section("check", lambda: check_norms(run)) or Report(())
    run.results.pop("check", None)
    run.section("against the references", references)
    timed = run.section("time", lambda: times(report)) or []
    run.section("tiles", lambda: sweep(report, deadline))
    missed = [f"{row['op']} {row['case']}" for row in timed if row["ratio"] > BAR]
    print(f"\nover {BAR} x floor: {', '.join(missed) or 'none'}")
    print(f"red: {len(report.red)}   failed sections: {', '.join(run.errors) or 'none'}")
    if arguments.json:
        arguments.json.write_text(json.dumps({**run.results, "errors": run.errors}, indent=1))
    return int(bool(missed or run.errors or not report.ok))


if __name__ == "__main__":
    raise SystemExit(main())
