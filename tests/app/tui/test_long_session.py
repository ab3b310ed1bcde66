"""A session of 1,000 messages, from its file: how long opening it and finding in it take."""

import time

import pytest

from app.sessions.entries import MessageEntry
from app.sessions.stamps import new_id, now
from tests.tries import tries

pytestmark = pytest.mark.timing

OPEN_S = 1.5
MESSAGE = (
    "Some text with **bold** words.\n\n- one\n- two\n\n```python\ndef f(x):\n    return x\n```\n"
)


def write(store):
    """Keep a conversation of 1,001 messages; returns its id."""
    session = store.create("m", "demo", "")
    for n in range(500):
        for role, text in (("user", f"question {n}"), ("assistant", f"Answer {n}\n\n{MESSAGE}")):
            session._contents.put(MessageEntry(new_id(), session.leaf, role, text, at=now()))
    session.add_message("user", "the first line that is written writes all of them")
    session.close()
    return session.id


async def test_it_opens_and_is_searched_in_time(seat):
    for _ in tries():
        async with seat(size=(120, 36)) as s:
            session_id = write(s.store)
            began = time.perf_counter()
            s.app.chat.resume(session_id)
            opened = time.perf_counter() - began
            assert len(s.app.chat.session.path_messages()) == 1001
            await s.pilot.pause()
            began = time.perf_counter()
            s.app.action_run("/find Answer 250")
            found = time.perf_counter() - began
            await s.pilot.pause()
            assert "Answer 250" in s.text
        print(f"open {opened * 1e3:.0f} ms, find {found * 1e3:.0f} ms")  # noqa: T201
        if opened <= OPEN_S:
            return
    pytest.fail(f"it opened in {opened:.2f} s")
