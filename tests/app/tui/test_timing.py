"""How little the screen costs: the bench of the command, shorter, against its bars."""

import pytest

from app.tui.bench.answers import KINDS
from app.tui.bench.measure import BARS, grow, stream
from app.tui.bench.timed_engine import Pace, TimedEngine
from tests.tries import tries

pytestmark = pytest.mark.timing

TOKENS = 600


@pytest.mark.parametrize("name", KINDS)
def test_a_long_block_streams_within_the_bars(name):
    for _ in tries():
        found = stream(name, TimedEngine(KINDS[name](TOKENS), Pace()))
        print(  # noqa: T201  (the figures are what one runs this for)
            f"{name}: {found.ratio:.3f} of the bare loop, lag p95 {found.lag_p95_ms:.1f} ms, "
            f"host p95 {found.host_p95_ms:.1f} ms, CPU {found.cpu_share:.0%}"
        )
        if found.is_met:
            return
    pytest.fail(f"{found} misses {BARS}")


def test_a_conversation_of_1000_messages_opens_grows_and_resizes_in_time():
    for _ in tries():
        found = grow(1000)
        print(found)  # noqa: T201  (the figures are what one runs this for)
        if found.is_met:
            return
    pytest.fail(f"{found} misses {BARS}")
