"""Time the kernels of a model's layers on cold data, proven first, against this machine's limits.

Read bandwidth and the time of an empty launch are measured in the same run, and every share is of
those. A problem runs with the tile that would serve it; what is red is not timed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

from engine.bench.subjects import Subject, subjects_of
from engine.check.families import RedKernelError, build_of, prove
from engine.check.run import check_family
from engine.errors import MemoryPlanError
from engine.machine.facts import cache_bytes, machine_facts, now, read_clocks, version_of
from engine.machine.free_memory import available_bytes
from engine.machine.measure import launch_time, read_bandwidth
from engine.sizes import size_text
from engine.types import Progress
from kernels.common.family import Family
from kernels.common.peers import Peer
from kernels.common.problem import Measured, Problem
from kernels.common.timing import Timing, num_cold_copies, time_calls, time_checked
from kernels.common.verdict import Finding, Report


@dataclass(slots=True)
class _Timed:
    """A subject's figures and its peers'."""

    subject: Subject
    timing: Timing
    copies: int
    peers: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])


@dataclass(frozen=True, slots=True)
class _Limits:
    """What the machine showed in this run; an empty launch costs nothing on a CPU."""

    read_gb_s: float
    launch_us: float


def bench_kernels(
    families: Sequence[Family],
    shape: str,
    rows: Sequence[int],
    *,
    device: str,
    with_peers: bool,
    full_check: bool,
    progress: Progress,
) -> dict[str, Any]:
    """Prove, then time; returns everything that a reader of the figures must know, as JSON values.

    Args:
        families: those without anything to time are named in the result.
        shape: key of ``SHAPES``.
        rows: tokens of a call.
        device: "cuda" times graph replays, "cpu" the torch path.
        with_peers: time what a person would use instead as well.
        full_check: prove all cases of a family, not only those that are timed.
        progress: called with a sentence for each step.

    Raises:
        RequestError: the shape or a number of rows is not to be had, or nothing is to be timed.
        RedKernelError: a proof is red; nothing was timed.
        MemoryPlanError: the copies of a problem do not fit.
    """
    subjects = subjects_of(families, shape, rows, device)
    for subject in subjects:
        _expect_room(subject, device)
    findings = _check(subjects, device, full_check=full_check, progress=progress)
    progress("measuring the read bandwidth")
    launch_us = launch_time().median_us if device == "cuda" else 0.0
    limits = _Limits(read_bandwidth(device).gb_s, launch_us)
    report = Report(tuple(findings))
    timed: list[_Timed] = []
    for subject in subjects:
        progress(f"{subject.family.name}: {subject.label}")
        timed.append(_time(subject, report, device))
        if with_peers:
            timed[-1].peers += [_time_peer(one, device) for one in subject.problem.peers]
        if device == "cuda":
            torch.cuda.empty_cache()  # the next copies have other sizes
    return {
        "date": now(),
        "shape": shape,
        "rows": list(rows),
        "machine": machine_facts(device) | {"clocks": read_clocks() if device == "cuda" else {}},
        "read_gb_s": limits.read_gb_s,
        "launch_us": limits.launch_us if device == "cuda" else None,
        "checks": _counted(findings, full_check),
        "nothing_to_time": [one.name for one in families if one.timed is None],
        "problems": [_figures(one, timed, limits, device) for one in timed],
    }


def _expect_room(subject: Subject, device: str) -> None:
    num_bytes = subject.problem.num_bytes
    needed = num_bytes * num_cold_copies(num_bytes, cache_bytes(device))
    free = available_bytes(device)
    if needed > free:
        raise MemoryPlanError(
            f"{subject.label} needs {size_text(needed)} for its cold copies and "
            f"{size_text(free)} are free.",
            "Take --shape demo, or fewer --rows.",
        )


def _check(
    subjects: Sequence[Subject], device: str, *, full_check: bool, progress: Progress
) -> list[Finding]:
    """Prove what will be timed, with its tiles; the first red proof ends it."""
    findings: list[Finding] = []
    for family in {one.family.name: one.family for one in subjects}.values():
        own = [one for one in subjects if one.family is family]
        if full_check or any(one.problem.case is None for one in own):
            progress(f"checking all of {family.name}")
            findings += _green(family, list(check_family(family, build_of(device))))
        progress(f"checking what is timed of {family.name}")
        proven: set[object] = set()
        for subject in own:
            case = subject.problem.case
            what = (subject.identity, case.label if case else "", repr(subject.tile))
            if what not in proven:
                findings += _green(family, _prove(subject, device))
                proven.add(what)
    return findings


def _prove(subject: Subject, device: str) -> Sequence[Finding]:
    case, family = subject.problem.case, subject.family
    if case is None:
        return ()
    if subject.tunable is not None:
        return prove(family, case, device, subject.tunable.run, subject.tile)
    op = family.ops[case.op]
    return prove(family, case, device, lambda inputs, outputs, _: op.run(inputs, outputs), None)


def _green(family: Family, findings: Sequence[Finding]) -> Sequence[Finding]:
    for one in findings:
        if one.fault:
            raise RedKernelError(
                f"{family.name} is red and is not timed: {one.subject}: {one.proof}: {one.fault}.",
                f"See 'qwen38 check --family {family.name}'.",
            )
    return findings


def _time(subject: Subject, report: Report, device: str) -> _Timed:
    problem = subject.problem
    copies = num_cold_copies(problem.num_bytes, cache_bytes(device))
    calls = [partial(call, subject.tile) for call in problem.make_calls(copies, device)]
    return _Timed(subject, time_checked(report, subject.family.name, calls, device), copies)


def _time_peer(peer: Peer, device: str) -> dict[str, Any]:
    """A peer's figures, or why there are none: a peer must not end the run."""
    version = version_of(peer.package) if peer.package else None
    about: dict[str, Any] = {"name": peer.name, "package": peer.package, "version": version}
    if device not in peer.devices:
        return about | {"absent": f"{peer.name} does not run on this device"}
    if peer.package and version is None:
        wanted = f"{peer.package}=={peer.version}" if peer.version else peer.package
        return about | {"absent": f"{peer.package} is not installed; pip install {wanted}"}
    try:
        copies = num_cold_copies(peer.num_bytes, cache_bytes(device))
        timing = time_calls(peer.make_calls(copies, device), device)
    except Exception as problem:  # noqa: BLE001  foreign code may fail in any way
        first = f"{problem}".strip().split("\n")[0][:200]
        return about | {"absent": f"{peer.name} failed: {type(problem).__name__}: {first}"}
    note = ""
    if peer.version and version != peer.version:
        note = f"{peer.package} is {version}; bars are stated against {peer.version}"
    return about | _times(timing) | {"gb_s": timing.gb_s(peer.num_bytes), "note": note}


def _times(timing: Timing) -> dict[str, float]:
    return {"us": timing.median_us, "low_us": timing.low_us, "high_us": timing.high_us}


def _figures(one: _Timed, every: Sequence[_Timed], limits: _Limits, device: str) -> dict[str, Any]:
    problem, timing, tunable = one.subject.problem, one.timing, one.subject.tunable
    floor_us = limits.launch_us + problem.num_bytes / limits.read_gb_s / 1e3
    seen = Measured(
        us=timing.median_us,
        share=timing.share(problem.num_bytes, limits.read_gb_s),
        floor_us=floor_us,
        peer_us={peer["name"]: peer["us"] for peer in one.peers if "us" in peer},
        us_by_rows={
            other.subject.problem.rows: other.timing.median_us
            for other in every
            if other.subject.identity == one.subject.identity
        },
    )
    tile = one.subject.tile
    return {
        "family": one.subject.family.name,
        "op": problem.op,
        "name": problem.name,
        "format": problem.format_name or None,
        "rows": problem.rows,
        "sizes": dict(problem.sizes),
        "tile": None if tunable is None or tile is None else dict(tunable.to_row(tile)),
        "bytes": problem.num_bytes,
        "copies": one.copies,
        "cold": one.copies * problem.num_bytes > cache_bytes(device),
        **_times(timing),
        "gb_s": timing.gb_s(problem.num_bytes),
        "share": seen.share,
        "floor_us": floor_us,
        "bars": _bars(problem, seen, device),
        "peers": [
            peer | ({"speed_up": peer["us"] / timing.median_us} if "us" in peer else {})
            for peer in one.peers
        ],
    }


def _bars(problem: Problem, seen: Measured, device: str) -> list[dict[str, Any]]:
    """Each limit of a problem's bar, met or not; bars are stated for GPUs."""
    if problem.bar is None:
        return []
    applies = device == "cuda"
    if applies and problem.bar.gpu:
        applies = problem.bar.gpu in str(machine_facts(device)["gpu"])
    return [
        {"bar": words, "met": met if applies else None, "gpu": problem.bar.gpu or None}
        for words, met in problem.bar.judge(seen)
    ]


def _counted(findings: Sequence[Finding], full_check: bool) -> dict[str, dict[str, Any]]:
    names = dict.fromkeys(one.family for one in findings)
    extent = "all cases" if full_check else "timed cases"
    return {
        name: {"proofs": sum(one.family == name for one in findings), "red": 0, "extent": extent}
        for name in names
    }
