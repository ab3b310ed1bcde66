"""What a run of the 27B is said to take."""

import subprocess
import sys

import pytest

from engine.model.config import SHAPE_27B
from engine.quantize.plan import PROCESS_BYTES, plan_run
from engine.settings.environment import child_environment
from engine.sizes import size_text
from tests.engine.quantize.demo import ROOT, calibration_file, write_source

RUN = """
import re, sys
from pathlib import Path
from engine.quantize.plan import PROCESS_BYTES
from engine.quantize.prepare import Options, prepare
from engine.quantize.run import quantize
source, out, method, text = sys.argv[1:]
prepared = prepare(Path(source), Path(out), Options(method, Path(text), 768, 384))
quantize(prepared, lambda part: None)
plan = prepared.plan
print(plan.device + plan.host + PROCESS_BYTES)
print(1024 * int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]))
"""


@pytest.mark.parametrize(("method", "most_gb"), [("nearest", 5), ("clip", 9), ("gptq", 13)])
def test_one_layer_at_a_time_is_on_the_device(method, most_gb):
    plan = plan_run(SHAPE_27B, method, 1 << 18, 2048)
    assert 1e9 < plan.device < most_gb * 1e9
    assert plan.host < 3e9
    assert plan.disk == pytest.approx(17.4e9, rel=0.05)


def test_calibration_rows_are_counted():
    few, many = (plan_run(SHAPE_27B, "gptq", tokens, 2048) for tokens in (1 << 16, 1 << 18))
    assert many.device - few.device == 2 * 5120 * ((1 << 18) - (1 << 16))


def test_a_sentence_has_the_numbers():
    plan = plan_run(SHAPE_27B, "gptq", 1 << 18, 2048)
    assert f"{size_text(plan.device)} on the GPU" in plan.told("cuda")
    beside = plan.host + PROCESS_BYTES
    assert f"{size_text(beside)} beside it" in plan.told("cuda")
    assert f"{size_text(plan.device + beside)} of memory" in plan.told("cpu")


@pytest.mark.parametrize("method", ["nearest", "gptq"])
def test_a_process_never_takes_more_than_it_says(tmp_path, method):
    """The most that the system ever held for it, its libraries too, on a CPU."""
    source, text = write_source(tmp_path / "source"), calibration_file(tmp_path)
    environment = child_environment({}) | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(source), str(tmp_path / "out"), method, str(text)],
        capture_output=True, text=True, check=True, env=environment,
    )  # fmt: skip
    planned, peak = map(int, done.stdout.split())
    assert planned / 4 < peak <= planned
