"""What an import loads, seen from a fresh process: the static graph cannot see deferred imports."""

import subprocess
import sys

import pytest

HEAVY = ("torch", "triton", "textual", "prompt_toolkit", "tokenizers", "jinja2", "numpy")


def loaded_by(code: str) -> set[str]:
    script = (
        f"{code}\nimport sys; print(' '.join(sorted({{n.split('.')[0] for n in sys.modules}})))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    return set(done.stdout.strip().splitlines()[-1].split())


def test_help_loads_neither_torch_nor_a_screen():
    code = """
import contextlib, io
from app.cli import main
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    import sys; sys.argv = ["qwen38", "--help"]; main()
"""
    assert not loaded_by(code) & set(HEAVY)


@pytest.mark.parametrize(
    "module", ["engine.types", "engine.records", "engine.profile", "engine.locate",
               "engine.settings.declared", "engine.errors", "engine.draft.router"],
)  # fmt: skip
def test_the_engines_contracts_load_no_tensor_library(module):
    assert not loaded_by(f"import {module}") & set(HEAVY)


@pytest.mark.parametrize("module", ["engine.open", "kernels.norm"])
def test_the_engine_loads_no_screen(module):
    assert not loaded_by(f"import {module}") & {"textual", "rich", "prompt_toolkit", "typer"}


def test_the_engine_loads_no_compiler():
    """Triton, and torch's compiler above it, would cost every start a second or two."""
    assert "triton" not in loaded_by("import engine.open")


@pytest.mark.parametrize("name", ["app", "engine", "kernels", "profiles"])
def test_the_four_packages_are_ours(name):
    code = f"import {name}, pathlib; print(pathlib.Path({name}.__file__).resolve().parents[1])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    from pathlib import Path

    assert Path(done.stdout.strip()) == Path(__file__).resolve().parents[2]
