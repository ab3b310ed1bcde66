"""`run_checks` proves what it says, goes red when it must, and says where."""

import dataclasses

import pytest
import torch

from engine.check.run import check_family, render, run_checks
from kernels.common.family import Law, Op
from kernels.common.verdict import Finding, Report
from kernels.norm import cases

SMALL = dataclasses.replace(cases.FAMILY, cases=(cases.rms_case(3, 40),), laws=())


def with_run(run) -> object:
    """Return the small family with another function in the place of rms_norm."""
    sound = SMALL.ops["rms_norm"]
    return dataclasses.replace(SMALL, ops={"rms_norm": Op(run, sound.truth, sound.model)})


def reds(family) -> dict[str, str]:
    findings = check_family(family, "torch")
    return {finding.proof: finding.fault for finding in findings if finding.fault}


@pytest.fixture(scope="module")
def report() -> Report:
    return run_checks(["norm"], "cpu")


def test_the_norms_are_green_on_the_cpu(report):
    assert report.ok, render(report)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_the_norms_are_green_on_a_gpu():
    report = run_checks(["norm"], "cuda")
    assert report.ok, render(report)


def test_the_cpu_run_checks_the_torch_path_and_the_interpreted_kernels(report):
    assert {finding.build for finding in report.findings} == {"torch", "interpreter"}
    for build in ("torch", "interpreter"):
        report.require_green("norm", build)


def test_only_device_code_is_compared_with_the_model(report):
    builds = {f.build for f in report.findings if f.proof == "bits of the model"}
    assert builds == {"interpreter"}


def test_progress_sees_every_finding(monkeypatch):
    seen: list[Finding] = []
    monkeypatch.setattr("engine.check.run.load_families", lambda names: (SMALL,))
    monkeypatch.setattr("engine.check.run._check_interpreted", lambda family: iter(()))
    report = run_checks(["norm"], "cpu", seen.append)
    assert tuple(seen) == report.findings


def test_a_family_is_named_before_its_kernels_are_compiled(monkeypatch):
    told = []
    family = dataclasses.replace(SMALL, compile=lambda: told.append("compiled"))
    monkeypatch.setattr("engine.check.run.load_families", lambda names: (family,))
    monkeypatch.setattr("engine.check.run.run_ahead", lambda *_: None)
    monkeypatch.setattr("engine.check.run.PROOFS", {"cuda": {}})
    run_checks(["norm"], "cuda", begin=told.append)
    assert told == [family.name, "compiled"]


def test_an_unknown_family_is_refused():
    with pytest.raises(ValueError, match="no kernel family nrom; there is"):
        run_checks(["nrom"], "cpu")


def test_an_unwritten_tail_is_red_and_found_at_its_coordinate():
    def run(inputs, outputs):
        cases.run_rms(inputs, outputs)
        outputs["out"][:, -1] = torch.nan

    fault = reds(with_run(run))["within tolerance of fp64"]
    assert "first at [T=0, D=39]: got nan" in fault


def test_rows_that_depend_on_their_number_are_red():
    def run(inputs, outputs):
        cases.run_rms(inputs, outputs)
        outputs["out"][0, 0] += len(inputs["x"]) / 64

    assert (
        "row 0 of a call of 2 rows is not the row alone" in reds(with_run(run))["rows stand alone"]
    )


def test_a_nan_that_spreads_is_red():
    def run(inputs, outputs):
        cases.run_rms(inputs, outputs)
        outputs["out"][:] += 0 * inputs["x"].sum()

    assert "reached another row" in reds(with_run(run))["NaN stays in its row"]


def test_a_nan_that_is_swallowed_is_red():
    def run(inputs, outputs):
        cases.run_rms({**inputs, "x": inputs["x"].nan_to_num()}, outputs)

    assert "vanished" in reds(with_run(run))["NaN stays in its row"]


def test_an_exception_is_a_fault_and_the_run_goes_on():
    def run(inputs, outputs):
        raise RuntimeError("out of registers")

    found = list(check_family(with_run(run), "torch"))
    assert len(found) == 3
    assert all(finding.fault == "RuntimeError: out of registers" for finding in found)


def test_a_broken_law_is_red():
    law = Law("one is two", lambda device: f"1 != 2 on {device}")
    assert reds(dataclasses.replace(SMALL, laws=(law,))) == {"law": "1 != 2 on cpu"}


def test_a_dead_child_process_is_red(monkeypatch):
    family = dataclasses.replace(SMALL, name="nrom")
    monkeypatch.setattr("engine.check.run.load_families", lambda names: (family,))
    report = run_checks(["nrom"], "cpu")
    assert not report.ok
    assert "no kernel family nrom" in (report.red[0].fault or "")


def test_a_report_of_nothing_is_not_ok():
    assert not Report(()).ok
    assert render(Report(())).endswith("nothing was checked")


def test_the_table_counts_by_function_and_spells_out_faults():
    findings = (
        Finding("norm", "cuda", "rms_norm T=1", "rows stand alone", None),
        Finding("norm", "cuda", "rms_norm T=2", "rows stand alone", "row 1 differs"),
        Finding("norm", "cuda", "no tile changes a bit", "law", None),
        Finding("sample", "cuda", "whole_top_p_penalised T=1", "rows stand alone", None),
    )
    lines = render(Report(findings)).splitlines()
    assert lines[1].split() == ["norm", "rms_norm", "cuda", "2", "1"]
    assert lines[2].split() == ["norm", "laws", "cuda", "1", "0"]
    assert lines[3].split() == ["sample", "whole_top_p_penalised", "cuda", "1", "0"]
    assert len({len(line) for line in lines[:4]}) == 1
    assert lines[4:] == [
        "RED norm (cuda) rms_norm T=2: rows stand alone",
        "    row 1 differs",
        "RED",
    ]
