"""What a run of the 27B is said to take."""

import pytest

from engine.model.config import SHAPE_27B
from engine.quantize.plan import plan_run
from engine.sizes import size_text


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
    assert f"{size_text(plan.device + plan.host)} of memory" in plan.told("cpu")
