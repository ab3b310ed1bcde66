"""Run the proofs of kernel families on this machine and report what they found.

On CUDA the real kernels run in this process. On the CPU two builds run: the torch path that a CPU
engine serves, here; and the kernels in Triton's repaired interpreter, in a child process, because
Triton decides at import whether it interprets. Knows no screen: `render` gives plain text.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Literal

from engine.settings.environment import child_environment
from kernels.common import proofs
from kernels.common.ahead import run_ahead
from kernels.common.family import Family, load_families
from kernels.common.proofs import Proof
from kernels.common.verdict import Finding, Report

Device = Literal["cpu", "cuda"]
Build = Literal["torch", "interpreter", "cuda"]
Told = Callable[[Finding], object]

PROOFS: dict[Build, dict[str, Proof]] = {
    "torch": proofs.ARITHMETIC,
    "interpreter": proofs.DEVICE_CODE,
    "cuda": proofs.CUDA,
}
"""What is proven of each build. The torch build is not compared with a model in torch: a
reference against itself is no check."""

MAX_FAULTS_SHOWN = 12
"""Faults that `render` spells out: one broken kernel is red in every case alike."""

ROOT = Path(__file__).parents[2]
"""Folder that holds `engine` and `kernels`; the child process imports from it."""


def run_checks(
    families: Sequence[str] | None,
    device: Device,
    progress: Told | None = None,
    begin: Callable[[str], object] = lambda _: None,
) -> Report:
    """Check kernel families on a device.

    Args:
        families: names from `kernels.FAMILY_MODULES`; None for all.
        device: "cuda" for the kernels on the GPU, "cpu" for the torch path and the interpreter.
        progress: called with each finding as it comes.
        begin: called with a family's name before its first proof, which waits on a GPU until the
            family's kernels are compiled.

    Returns:
        The report; `report.ok` is the truth behind the exit code.

    Raises:
        ValueError: a family has an unknown name.
    """
    loaded = load_families(families)
    findings: list[Finding] = []
    for finding in _all_findings(loaded, device, begin):
        findings.append(finding)
        if progress is not None:
            progress(finding)
    return Report(tuple(findings))


def check_family(family: Family, build: Build) -> Iterator[Finding]:
    """Prove every case and law of a family on one build, which must be this process's.

    An exception in a proof is a fault of that proof, never the end of the run.
    """
    device = "cuda" if build == "cuda" else "cpu"
    if build == "cuda":
        if family.compile is not None and family.cases:
            family.compile()
        run_ahead(family.ops, family.cases, device)
    for case in family.cases:
        if build == "interpreter" and not case.interpreted:
            continue
        if build != "cuda" and case.cuda_only:
            continue
        op = family.ops[case.op]
        for name, proof in PROOFS[build].items():
            if not proofs.applies(proof, op, case):
                continue
            fault = _fault_of(lambda proof=proof, op=op, case=case: proof(op, case, device))
            yield Finding(family.name, build, f"{case.op} {case.label}", name, fault)
    for law in family.laws:
        if build != "cuda" and law.cuda_only:
            continue
        fault = _fault_of(lambda law=law: law.broken(device))
        yield Finding(family.name, build, law.name, "law", fault)


def render(report: Report) -> str:
    """Draw a report as a text table: one line a function and build, then the first faults."""
    groups: dict[tuple[str, str, str], list[Finding]] = {}
    for finding in report.findings:
        subject = "laws" if finding.proof == "law" else finding.subject.split()[0]
        groups.setdefault((finding.family, subject, finding.build), []).append(finding)
    width = max(len(subject) for _, subject, _ in [*groups, ("", "function", "")]) + 2
    lines = [f"{'family':<11}{'function':<{width}}{'build':<13}{'proofs':>7}{'red':>5}"]
    for (family, subject, build), findings in groups.items():
        num_red = sum(finding.fault is not None for finding in findings)
        lines.append(f"{family:<11}{subject:<{width}}{build:<13}{len(findings):>7}{num_red:>5}")
    for finding in report.red[:MAX_FAULTS_SHOWN]:
        lines.append(f"RED {finding.family} ({finding.build}) {finding.subject}: {finding.proof}")
        lines.append(f"    {finding.fault}")
    if (num_hidden := len(report.red) - MAX_FAULTS_SHOWN) > 0:
        lines.append(f"and {num_hidden} more red")
    lines.append("green" if report.ok else "RED" if report.findings else "nothing was checked")
    return "\n".join(lines)


def _all_findings(
    families: Sequence[Family], device: Device, begin: Callable[[str], object]
) -> Iterator[Finding]:
    for family in families:
        begin(family.name)
        if device == "cuda":
            yield from check_family(family, "cuda")
        else:
            yield from check_family(family, "torch")
            yield from _check_interpreted(family.name)


def _check_interpreted(family: str) -> Iterator[Finding]:
    """Check a family in a child process that interprets; its death is a finding too."""
    command = [sys.executable, "-m", "engine.check.interpreter", family]
    environment = child_environment({"TRITON_INTERPRET": "1"})
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as child,
    ):
        if child.stdout is not None:
            for line in child.stdout:
                yield Finding(**json.loads(line))
        if child.wait() != 0:
            errors.seek(0)
            last = errors.read().strip().splitlines()[-1:] or ["no message"]
            fault = f"the interpreter process ended with {child.returncode}: {last[0]}"
            yield Finding(family, "interpreter", "child process", "runs to its end", fault)


def to_json(finding: Finding) -> str:
    """Write a finding as one line of JSON, as the child process reports it."""
    return json.dumps(asdict(finding))


def _fault_of(proof: Callable[[], str | None]) -> str | None:
    try:
        return proof()
    except Exception as error:  # noqa: BLE001  a kernel that raises is red, and the rest still runs
        return f"{type(error).__name__}: {error}"
