"""The repaired interpreter agrees with torch where the unrepaired one is silently wrong."""

from pathlib import Path

import pytest

from kernels.common import interpreter

HERE = Path(__file__).parent


def test_every_repaired_operation_agrees_with_torch(run_script):
    verdicts = run_script(HERE / "interpreter_script.py", interpreted=True)
    assert len(verdicts) == 6
    assert [name for name, agrees in verdicts.items() if not agrees] == []


def test_shortcuts_are_taken_and_change_nothing(run_script):
    verdicts = run_script(HERE / "shortcuts_script.py", interpreted=True)
    assert len(verdicts) == 11
    assert [name for name, holds in verdicts.items() if not holds] == []


def test_a_process_that_compiles_cannot_be_repaired():
    with pytest.raises(RuntimeError, match="TRITON_INTERPRET=1"):
        interpreter.install()
    assert not interpreter.is_installed()
