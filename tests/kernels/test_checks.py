"""Families are green without a GPU, by torch and in the interpreter, and on a GPU.

Linear and norm have tests of their own of what their reports hold; the walk and the attention of a
round are CUDA C++, which no interpreter runs.
"""

import pytest
import torch

from engine.check.run import render, run_checks

FAMILIES = ("conv", "embed", "head", "sample")


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_is_green_on_the_cpu(name):
    report = run_checks([name], "cpu")
    assert report.ok, render(report)
    for build in ("torch", "interpreter"):
        report.require_green(name, build)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_is_green_on_a_gpu(name):
    report = run_checks([name], "cuda")
    assert report.ok, render(report)
