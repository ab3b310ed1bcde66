"""How a family is found, and what every family must bring."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from kernels import FAMILY_MODULES
from kernels.common.family import load_families


def test_all_families_load_by_their_names():
    assert [family.name for family in load_families()] == list(FAMILY_MODULES)


def test_an_unknown_family_is_refused_with_the_names_there_are():
    with pytest.raises(ValueError, match=r"no kernel family nrom; there is .*norm"):
        load_families(["nrom"])


@pytest.mark.parametrize("family", load_families(), ids=lambda family: family.name)
def test_every_case_names_a_function_of_its_family_and_gives_a_reason_for_its_bound(family):
    for case in family.cases:
        assert case.op in family.ops
        assert len(case.tolerance.reason) > 20


@pytest.mark.parametrize("family", FAMILY_MODULES)
def test_a_family_can_be_imported_first(family: str):
    importlib.import_module(FAMILY_MODULES[family])


@pytest.mark.parametrize("family", FAMILY_MODULES)
def test_public_functions_and_cases_load_without_triton(family: str):
    code = f"import {FAMILY_MODULES[family]}, sys; sys.exit('triton' in sys.modules)"
    root = Path(__file__).parents[3]
    assert subprocess.run([sys.executable, "-c", code], cwd=root, check=False).returncode == 0
