"""Cases run once in threads before they are proven, so that compilers work at one time."""

import threading
from collections import Counter
from dataclasses import replace

import pytest

from engine.check import run as checks
from kernels.common.ahead import MOST_BYTES, call_ahead, run_ahead
from kernels.common.family import Family, Op
from tests.fakes import family as fake


@pytest.fixture
def ran():
    return []


@pytest.fixture
def ops(ran):
    def run(inputs, outputs):
        ran.append((inputs["x"].shape, threading.get_ident()))
        if inputs["x"].shape[1] == 13:
            raise RuntimeError("no launch")
        fake.run(inputs, outputs)

    return {"double": Op(run, lambda inputs: {"out": 2 * inputs["x"].double()})}


def test_every_row_count_that_a_proof_calls_is_called(ops, ran):
    run_ahead(ops, [fake.case(3), fake.case(5, width=16)], "cpu")
    assert Counter(shape for shape, _ in ran) == {
        (1, 8): 1, (2, 8): 1, (3, 8): 2, (1, 16): 1, (2, 16): 1, (3, 16): 1, (4, 16): 1, (5, 16): 2,
    }  # fmt: skip


def test_a_long_call_is_made_whole_and_of_one_row(ops, ran):
    run_ahead(ops, [fake.case(40)], "cpu")
    assert [shape[0] for shape, _ in ran] == [40, 1]


def test_all_but_the_first_run_in_threads(ops, ran):
    run_ahead(ops, [fake.case(1), *(fake.case(1, width=8 * i) for i in range(2, 9))], "cpu")
    here = threading.get_ident()
    assert [one == here for _, one in ran[:2]] == [True, True]
    assert here not in {one for _, one in ran[2:]}


def test_a_large_case_waits_for_its_proof(ops, ran):
    width = MOST_BYTES // 8 + 1
    run_ahead(ops, [fake.case(1, width=width)], "cpu")
    assert ran == []


def test_a_case_that_fails_stops_nothing_and_its_proof_tells(ops, ran):
    cases = (fake.case(2, width=13), fake.case(2))
    run_ahead(ops, cases, "cpu")
    assert {shape[1] for shape, _ in ran} == {8, 13}
    family = Family("fake", ops, cases)
    red = [one.subject for one in checks.check_family(family, "torch") if one.fault]
    assert red
    assert all("D=13" in one for one in red)


def test_calls_that_fail_or_are_none_stop_nothing():
    made = []
    call_ahead(())
    call_ahead((lambda: 1 / 0, lambda: made.append(1), lambda: int("one"), lambda: made.append(2)))
    assert sorted(made) == [1, 2]


def test_a_check_on_a_gpu_compiles_first_and_a_check_of_one_case_only_that(ops, monkeypatch):
    told = []
    monkeypatch.setattr(checks, "run_ahead", lambda ops, cases, device: told.append(device))
    monkeypatch.setitem(checks.PROOFS, "cuda", {})
    family = Family("fake", ops, (fake.case(2),), compile=lambda: told.append("compile"))
    assert list(checks.check_family(family, "cuda")) == []
    assert told == ["compile", "cuda"]
    assert list(checks.check_family(replace(family, cases=()), "cuda")) == []
    assert told == ["compile", "cuda", "cuda"]
    list(checks.check_family(family, "torch"))
    assert len(told) == 3
