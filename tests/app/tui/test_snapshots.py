"""What the screen looks like, at every size and in every look; time and engine stand still."""

import threading
from dataclasses import replace

import pytest

from app.tui.clock import Clock
from app.tui.file_piece import FilePiece
from app.tui.instruments.gauges import Gauges
from engine.machine.load import MachineLoad
from engine.records import RoundRecord, TurnRecord
from engine.types import LoadProgressed, PromptProgressed, RoundEnded, TextArrived, TurnEnded
from tests.app.tui.screens import assert_same
from tests.fakes.engine import INFO

SIZES = [(120, 36), (80, 24), (60, 16), (40, 10)]
LOOKS = {
    "dark": {},
    "light": {"chat__theme": "light"},
    "ascii": {"chat__ascii": True},
}
THINKING = "They want a sieve. Blocks that fit in the cache, then."
BEFORE = """A segmented sieve works on blocks that fit in the **L1 cache**:

1. find the base primes up to `√n`;
2. clear their multiples, block by block.

| block | time |
|:------|-----:|
| 32 KiB | 1.21 s |
| 1 MiB | 3.90 s |

```python
def segmented(n: int, block: int = 1 << 15):
    base = simple_sieve(isqrt(n))  # 漢字
"""
AFTER = """    return base
```

> See [the paper](https://example.org/sieve).
"""


class StillEngine:
    """Answers with fixed records; waits in the middle until it is let go."""

    info = replace(INFO, is_demo=False, model="Qwen3.8-27B", profile="nvfp4", read_gb_s=236.4)

    def __init__(self):
        self.go = threading.Event()

    def generate(self, request, stop):
        yield PromptProgressed(214, 214, 0, 1830.0)
        yield TextArrived(THINKING, "thinking")
        rounds = []
        for text, said in ((BEFORE, THINKING + BEFORE), (AFTER, AFTER)):
            chars = self._chars(said)
            for at in range(10):
                rounds.append(self._round(len(rounds)))
                yield RoundEnded(rounds[-1], chars[3 * at : 3 * at + 3])
            yield TextArrived(text, "answer")
            if text is BEFORE:
                self.go.wait(20)
        yield TurnEnded(self._record(tuple(rounds)))

    def _round(self, index):
        ms = {"draft": 10.0, "verify": 76.0, "accept": 2.0, "host": 2.0}
        return RoundRecord(
            index, "mtp", "chain", 4, 3, 2, (index + 1, index + 2, index + 3),
            214 + index * 3, 0.41 + index * 0.09, ms,
            {"weights": 14_100_000_000, "head": 640_000_000, "state": 302_000_000, "kv": 14_000_000,
             "drafter": 420_000_000}, (index + 1, index + 2, index + 9),
        )  # fmt: skip

    def _record(self, rounds):
        ids = tuple(one for each in rounds for one in each.token_ids)
        return TurnRecord(
            BEFORE + AFTER,
            THINKING,
            ids,
            "stop",
            214,
            0,
            0.41,
            2.2,
            1830.0,
            33.3,
            rounds,
            (),
            1,
            token_chars=self._chars(THINKING + BEFORE) + self._chars(AFTER),
        )

    @staticmethod
    def _chars(text):
        """Characters of each of the thirty tokens of ten rounds."""
        size = -(-len(text) // 30)
        return tuple(len(text[at * size : (at + 1) * size]) for at in range(30))

    def count_tokens(self, messages):
        return 214

    def text_tokens(self, text):
        return len(text.split())

    def token_texts(self, token_ids):
        return [f" w{one}" for one in token_ids]

    def measure_again(self):
        pass

    def close(self):
        self.go.set()


class StillGauges(Gauges):
    """A machine and a screen whose figures never change."""

    def start(self):
        self.load = MachineLoad(
            process_bytes=30_900_000_000, ram_used_bytes=34_200_000_000, ram_bytes=130_000_000_000,
            cpu_cores=1.2, gpu_share=0.96, power_w=62.0, temperature_c=61,
        )  # fmt: skip
        self.share = 0.043

    @property
    def lag_p95_ms(self):
        return 1.4


def still_clock():
    return Clock(seconds=lambda: 1000.0, minute=lambda iso: "09:41")


@pytest.fixture
def still(seat, monkeypatch):
    def open_still(size, **options):
        monkeypatch.setattr("app.tui.screens.resume.local_day", lambda iso: "2026-11-29 09:41")
        return seat(
            size=size, engine=StillEngine(), clock=still_clock(), gauges=StillGauges(), **options
        )

    return open_still


async def settle(s):
    for _ in range(12):
        s.app.tick()
        await s.pilot.pause()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("look", LOOKS)
async def test_streaming(still, size, look):
    async with still(size, **LOOKS[look]) as s:
        s.app.composer.cursor_blink = False
        await s.idle()
        await s.send("Write a segmented sieve")
        await s.until(lambda: s.app.chat.phase == "writing")
        await s.type("and now in parallel")
        await settle(s)
        assert_same(s.app, f"streaming-{look}-{size[0]}x{size[1]}")
        s.engine.go.set()
        await s.idle()


@pytest.mark.parametrize("size", [(120, 36), (80, 24)])
@pytest.mark.parametrize("look", LOOKS)
async def test_done(still, size, look):
    async with still(size, **LOOKS[look]) as s:
        s.app.composer.cursor_blink = False
        s.engine.go.set()
        await s.idle()
        await s.send("Write a segmented sieve")
        await s.until(lambda: s.app.chat.rates is not None and s.app.chat.rates.record)
        await settle(s)
        assert_same(s.app, f"done-{look}-{size[0]}x{size[1]}")


@pytest.mark.parametrize("size", SIZES)
async def test_loading(seat, size):
    go = threading.Event()

    def opener(progress, cancel):
        progress(
            LoadProgressed("model-00003-of-00011.safetensors", 3_200_000_000, 28_900_000_000, 2.1)
        )
        go.wait(20)
        return StillEngine()

    async with seat(size=size, opener=opener, clock=still_clock(), gauges=StillGauges()) as s:
        s.app.composer.cursor_blink = False
        await s.until(lambda: s.app.chat.seat.load is not None)
        await settle(s)
        assert_same(s.app, f"loading-{size[0]}x{size[1]}")
        go.set()


@pytest.mark.parametrize("key", ["f1", "ctrl+r"])
async def test_sheets(still, key):
    async with still((80, 24)) as s:
        s.app.composer.cursor_blink = False
        s.engine.go.set()
        await s.idle()
        await s.send("Write a segmented sieve")
        await s.until(lambda: s.app.chat.rates is not None and s.app.chat.rates.record)
        await s.pilot.press(key)
        await s.until(lambda: key == "f1" or "09:41  " in s.text)
        if key == "ctrl+r":
            s.app.screen.query_one("Input").cursor_blink = False
        await settle(s)
        assert_same(s.app, f"sheet-{key.replace('+', '-')}-80x24")


@pytest.mark.parametrize("size", [(120, 36), (80, 24), (60, 16)])
@pytest.mark.parametrize("look", LOOKS)
async def test_rounds(still, size, look):
    async with still(size, **LOOKS[look]) as s:
        s.engine.go.set()
        await s.idle()
        await s.send("Write a segmented sieve")
        await s.until(lambda: s.app.chat.rates is not None and s.app.chat.rates.record)
        await s.send("/view full")
        await s.pilot.press("up", "up")
        s.app.screen.paint()
        await s.pilot.pause()
        assert_same(s.app, f"rounds-{look}-{size[0]}x{size[1]}")


@pytest.mark.parametrize("look", LOOKS)
async def test_tokens(still, look):
    async with still((80, 24), **LOOKS[look]) as s:
        s.app.composer.cursor_blink = False
        s.engine.go.set()
        await s.idle()
        await s.send("Write a segmented sieve")
        await s.until(lambda: s.app.chat.rates is not None and s.app.chat.rates.record)
        await s.pilot.press("f7")
        await settle(s)
        assert_same(s.app, f"tokens-{look}-80x24")


@pytest.mark.parametrize("size", [(120, 36), (80, 24), (60, 16)])
@pytest.mark.parametrize("look", LOOKS)
async def test_tokens_while_they_arrive(still, size, look):
    async with still(size, chat__token_colours=True, **LOOKS[look]) as s:
        s.app.composer.cursor_blink = False
        await s.idle()
        await s.send("Write a segmented sieve")
        await s.until(lambda: s.app.chat.phase == "writing")
        await settle(s)
        assert_same(s.app, f"tokens-live-{look}-{size[0]}x{size[1]}")
        s.engine.go.set()
        await s.idle()


@pytest.mark.parametrize("size", [(120, 36), (80, 24), (60, 16)])
@pytest.mark.parametrize("look", LOOKS)
async def test_files(still, size, look, tmp_path, monkeypatch):
    """A file folded and one unfolded, while the next message names another."""
    monkeypatch.chdir(tmp_path)
    for name in ("sieve.py", "notes.md"):
        (tmp_path / name).write_text(f"# {name}\nx = 1\n")
    async with still(size, chat__view="off", **LOOKS[look]) as s:
        s.app.composer.cursor_blink = False
        await s.idle()
        await s.send("Compare @sieve.py with @notes.md")
        await s.until(lambda: s.app.chat.phase == "writing")
        await s.pilot.press("tab")
        while not isinstance(s.app.transcript.cursor, FilePiece):
            await s.pilot.press("k")
        await s.pilot.press("enter", "tab")
        s.app.composer.focus()
        await s.type("and now @sieve.py")
        await s.until(lambda: s.app.tick() or "tokens" in s.state)
        await settle(s)
        s.app.transcript.action_scroll_home()
        await settle(s)
        assert_same(s.app, f"files-{look}-{size[0]}x{size[1]}")
        s.engine.go.set()
        await s.idle()
