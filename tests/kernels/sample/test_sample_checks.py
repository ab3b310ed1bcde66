"""Sampling and walks are green on a CPU, by torch and in the interpreter, and on a GPU."""

import pytest
import torch

from engine.check.run import render, run_checks


def test_sampling_is_green_on_the_cpu():
    report = run_checks(["sample"], "cpu")
    assert report.ok, render(report)
    for build in ("torch", "interpreter"):
        report.require_green("sample", build)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_sampling_is_green_on_a_gpu():
    report = run_checks(["sample"], "cuda")
    assert report.ok, render(report)
