"""The repaired interpreter agrees with torch where the unrepaired one is silently wrong."""

from pathlib import Path

import pytest

from kernels.common import interpreter


def test_every_repaired_operation_agrees_with_torch(run_script):
    script = Path(__file__).with_name("interpreter_script.py")
    verdicts = run_script(script, interpreted=True)
    assert len(verdicts) == 6
    assert [name for name, agrees in verdicts.items() if not agrees] == []


def test_a_process_that_compiles_cannot_be_repaired():
    with pytest.raises(RuntimeError, match="TRITON_INTERPRET=1"):
        interpreter.install()
    assert not interpreter.is_installed()
