"""A load says what it does when its bytes are there already."""

from engine.load_steps import LoadSteps
from engine.types import LoadProgressed

LAST = LoadProgressed("layers-1.safetensors", 70, 70, 2.5)


def test_what_goes_on_behind_the_bytes_is_a_step_of_its_own():
    seen = []
    steps = LoadSteps(seen.append)
    steps(LAST)
    steps.go_on("rounds captured")
    assert seen == [LAST, LoadProgressed("rounds captured", 70, 70, 2.5)]


def test_nothing_is_said_to_nobody_or_before_the_first_byte():
    LoadSteps(None)(LAST)
    seen = []
    LoadSteps(seen.append).go_on("rounds captured")
    assert seen == []
