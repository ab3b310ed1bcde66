"""The head's choices are green on a CPU, by torch and in the interpreter, and on a GPU."""

import pytest
import torch

from engine.check.run import render, run_checks


def test_the_head_is_green_on_the_cpu():
    report = run_checks(["head"], "cpu")
    assert report.ok, render(report)
    for build in ("torch", "interpreter"):
        report.require_green("head", build)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_the_head_is_green_on_a_gpu():
    report = run_checks(["head"], "cuda")
    assert report.ok, render(report)
