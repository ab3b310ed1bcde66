"""A machine that lacks what Triton compiles itself with is told what to install."""

import subprocess
from functools import partial
from types import SimpleNamespace

import pytest

from engine.machine import triton_part
from engine.machine.triton_part import what_triton_lacks


class Driver:
    """Triton's driver, which compiles its part when it is asked for."""

    def __init__(self, problem=None):
        self._problem = problem

    @property
    def utils(self):
        if self._problem is not None:
            raise self._problem
        return "compiled"


@pytest.fixture
def triton(monkeypatch):
    """Triton on this machine: ``triton(problem, has compiler, has headers)``."""
    asked = []

    def ask(command, **options):
        asked.append((command, options))
        return SimpleNamespace(returncode=int(ask.problem is not None))

    def set_up(problem, *, compiler=True, include="/usr/include/python3.12"):
        ask.problem = problem
        monkeypatch.setattr(triton_part.subprocess, "run", ask)
        module = SimpleNamespace(driver=SimpleNamespace(active=Driver(problem)))
        monkeypatch.setattr(triton_part, "import_module", lambda name: module)
        found = "/usr/bin/gcc" if compiler else None
        monkeypatch.setattr(triton_part.shutil, "which", lambda name: found)
        monkeypatch.setattr(triton_part.sysconfig, "get_config_var", lambda name: include)
        what_triton_lacks.cache_clear()
        asked.clear()
        return asked

    yield set_up
    what_triton_lacks.cache_clear()


GCC_FAILED = subprocess.CalledProcessError(1, ["/usr/bin/gcc", "main.c"])


def test_a_machine_that_compiles_lacks_nothing(triton):
    triton(None, compiler=False)  # compiled before
    assert what_triton_lacks() is None


def test_a_missing_compiler_and_missing_headers_are_named_with_their_packages(triton, tmp_path):
    triton(RuntimeError("Failed to find C compiler."), compiler=False, include=str(tmp_path))
    lack = what_triton_lacks()
    assert "has no C compiler and no headers of Python 3." in lack.sentence
    assert "sudo apt install gcc python3." in lack.mend
    assert lack.mend.endswith("-dev")
    triton(GCC_FAILED, include=str(tmp_path))
    lack = what_triton_lacks()
    assert "C compiler and" not in lack.sentence
    assert "gcc" not in lack.mend


def test_where_something_is_missing_no_compiler_speaks_on_the_screen(triton, tmp_path, monkeypatch):
    asked = triton(GCC_FAILED, include=str(tmp_path))
    never = partial(pytest.fail, "Triton was asked in this process")
    monkeypatch.setattr(triton_part, "import_module", lambda _: never())
    assert what_triton_lacks() is not None
    ((_, options),) = asked
    assert options["capture_output"]


def test_the_process_that_asks_triton_says_how_it_ended():
    assert not triton_part._does_without()  # no GPU answers in it


@pytest.mark.parametrize("problem", [GCC_FAILED, AssertionError("libcuda.so cannot found!\nmore")])
def test_another_reason_is_told_as_it_is(triton, tmp_path, problem):
    (tmp_path / "Python.h").write_text("")
    triton(problem, include=str(tmp_path))
    lack = what_triton_lacks()
    assert str(problem).splitlines()[0].rstrip(".!") in lack.sentence
    assert "model.device" in lack.mend
