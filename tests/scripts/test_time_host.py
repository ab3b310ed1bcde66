"""The script that times the host alone runs real turns, and tells foreseen rounds from others."""

import sys
from pathlib import Path
from unittest.mock import patch

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import time_host  # noqa: E402


@pytest.fixture
def table(monkeypatch, capsys):
    """What it prints of some drafters, by drafter and rows."""

    def run(only):
        monkeypatch.setattr(sys, "argv", ["time_host.py", "--tokens", "240", "--only", only])
        try:
            assert time_host.main() == 0
        finally:
            patch.stopall()
        lines = [one.split() for one in capsys.readouterr().out.splitlines()[1:-1]]
        return [(name, shape, *map(float, rest)) for name, shape, *rest in lines]

    return run


def test_rounds_that_run_ahead_keep_no_device_waiting(table):
    ((_, _, rows, num_rounds, between, *_),) = table("off")
    assert (rows, num_rounds, between) == (1, 239, 0)


def test_every_kind_of_replay_is_timed(table):
    found = table("replay")
    assert [one[:2] for one in found] == [("replay", "chain")] * 3 + [("replay", "tree")]
    assert found[0][2] == pytest.approx(4, abs=0.2)
    assert found[1][2] == pytest.approx(16, abs=1)
    assert all(one[4] > 0 for one in found)


def test_a_head_reads_each_row_once_and_is_right_until_every_third_token(table):
    ((_, _, rows, num_rounds, *_),) = table("mtp")
    assert rows == pytest.approx(4, abs=0.2)
    assert num_rounds == pytest.approx(240 / 3, abs=2)
