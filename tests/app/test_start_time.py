"""How soon the chat is there: its first frame, and typing while the model still loads."""

import sys
import time

import pytest

from tests.app.conftest import ROOT
from tests.app.terminal import Terminal
from tests.tries import slowness, tries

pytestmark = pytest.mark.timing

FIRST_FRAME_S = 1.5
"""Most of it is importing, plain Python: a core that is half as fast has twice as long."""

MARGIN = 1.25
"""What the terminal, a second process on the same cores, may take of that time."""


def start(environment):
    """Seconds until the whole first frame is on the terminal, and until a key is shown."""
    began = time.perf_counter()
    with Terminal([sys.executable, "-m", "app", "chat"], environment, ROOT) as terminal:
        terminal.wait_for("no answer yet")
        frame = time.perf_counter() - began
        typed = time.perf_counter()
        terminal.type("zebra")
        terminal.wait_for("zebra")
        key = time.perf_counter() - typed
        terminal.type("\x11")
        terminal.wait_for("<<exit 0>>")
    return frame, key


def test_the_first_frame_is_there_in_time_and_takes_keys(environment):
    for _ in tries():
        frame, key = start(environment)
        print(f"first frame {frame:.2f} s, a key {key * 1e3:.0f} ms")  # noqa: T201  (the figures)
        if frame <= FIRST_FRAME_S * MARGIN * slowness():
            return
    pytest.fail(f"the first frame took {frame:.2f} s")
