"""Products of many rows, expansion and the FP8 option keep their contracts in the interpreter."""

from pathlib import Path

import pytest

FORMATS = ("nvfp4", "nvfp4_spread", "fp8_block", "e4m3_row", "bf16")
PROPERTIES = (
    *(f"{path} {name}" for path in ("middle", "expand", "expanded") for name in FORMATS),
    "quantiser",
    *(f"rounded {name}" for name in FORMATS[:2]),
    *(f"prefill {name}" for name in FORMATS[:4]),
)


@pytest.fixture(scope="module")
def verdicts(run_script) -> dict[str, str | None]:
    return run_script(Path(__file__).with_name("middle_script.py"), interpreted=True)


@pytest.mark.parametrize("prefix", PROPERTIES)
def test_every_property_holds(verdicts, prefix: str):
    mine = {name: fault for name, fault in verdicts.items() if name.startswith(prefix + " ")}
    assert mine
    assert {name: fault for name, fault in mine.items() if fault is not None} == {}
