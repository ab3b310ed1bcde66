"""Draw the README's picture from a recording: the real screen, with figures as they were measured.

    .venv/bin/python scripts/picture.py             draws scripts/picture/screen.svg
    .venv/bin/python scripts/picture.py --record    has the demo model answer again first

Needs no terminal. The recording holds what the engine told while it answered, and beside it stands
what the machine's load was then; tests/scripts/test_picture.py says when the picture is stale.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from app.live import LiveSettings
from app.opening import plan
from app.sessions.history import PromptHistory
from app.sessions.store import SessionStore
from app.trace.facts import info_of
from app.trace.read import all_turns
from app.trace.record import Recorder
from app.trace.replay import prompts_of, timed_events
from app.trace.traced import TracedTurn
from app.tui.chat import ChatApp
from app.tui.clock import Clock
from app.tui.instruments.gauges import Gauges
from app.tui.worker import EngineWorker
from engine.machine.load import LoadReader, MachineLoad
from engine.records import RoundRecord
from engine.settings.load import load_settings
from engine.types import Event, Message, PromptProgressed, Request, RoundEnded

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "scripts/picture"
PICTURE, RECORDING, LOAD = (
    FOLDER / name for name in ("screen.svg", "demo.trace", "machine-load.json")
)
SIZE = (120, 36)
QUESTIONS = ("what is a volcano?", "who are you?", "tell me a story")
"""The last one is still being answered in the picture."""

WAIT_S = 0.02
REST_S = 10.0
"""Before the first question, so that the screen's lag, told of ten seconds, is not the load's."""


def newest_of(turn: TracedTurn) -> RoundRecord:
    """The newest round of an answer that is still being written."""
    return turn.record.rounds[-2]


class StillEngine:
    """Says recorded turns again, at once, and stands still in the middle of the last one."""

    def __init__(self, turns: Sequence[TracedTurn]) -> None:
        self.info = info_of(turns[0].head.facts)
        self.is_reached, self.may_end = threading.Event(), threading.Event()
        self._turns = turns
        self._next = 0

    def generate(self, request: Request, stop: threading.Event) -> Iterator[Event]:
        """Say the next turn."""
        del request, stop
        turn = self._turns[self._next]
        self._next += 1
        is_last = self._next == len(self._turns)
        for _, event in timed_events(turn):
            yield event
            if is_last and isinstance(event, RoundEnded) and event.record == newest_of(turn):
                self.is_reached.set()
                self.may_end.wait()

    def read_ahead(self, request: Request, stop: threading.Event) -> Iterator[PromptProgressed]:
        """Nothing is read."""
        del request, stop
        yield from ()

    def count_tokens(self, messages: tuple[Message, ...]) -> int:
        """Nothing is counted."""
        del messages
        return 0

    def text_tokens(self, text: str) -> int:
        """Nothing is counted."""
        del text
        return 0

    def token_texts(self, token_ids: Sequence[int]) -> list[str]:
        """A recording holds no tokenizer."""
        return [""] * len(token_ids)

    def measure_again(self) -> None:
        """Nothing is measured."""

    def close(self) -> None:
        """Nothing to free."""


class RecordedGauges(Gauges):
    """What was read while the recording was made."""

    def start(self) -> None:
        """Show it."""
        kept = json.loads(LOAD.read_text(encoding="utf-8"))
        self.load = MachineLoad(**kept["load"])
        self.share = kept["share"]
        self._lags_s.extend([kept["lag_p95_ms"] / 1e3] * 2)


async def take(folder: Path) -> str:
    """The screen as SVG while the last question is answered."""
    turns = list(all_turns(RECORDING, print))
    nowhere = {f"paths.{one}": str(folder) for one in ("config", "data", "state")}
    _, sources = load_settings(nowhere)
    engine = StillEngine(turns)
    worker = EngineWorker(lambda _progress, _cancel: engine)
    store = SessionStore(folder / "sessions", folder / "drafts")
    history = PromptHistory(folder / "history.jsonl")
    seconds = [0.0]
    clock = Clock(seconds=lambda: seconds[0], minute=lambda _iso: "09:41")
    app = ChatApp(
        LiveSettings.of(sources), store, history, worker, clock=clock,
        prompts=prompts_of(turns), gauges=RecordedGauges(),
    )  # fmt: skip
    async with app.run_test(size=SIZE) as pilot:
        app.composer.cursor_blink = False
        while not engine.is_reached.is_set():
            await asyncio.sleep(WAIT_S)
        newest = newest_of(turns[-1])
        seconds[0] = newest.start_s + newest.round_ms / 1e3
        for _ in range(4):  # what arrived is taken, drawn, and its figures are painted
            app.tick()
            await pilot.pause()
        svg = app.export_screenshot(title="qwen38 chat")
        engine.may_end.set()
    worker.close()
    app.chat.close()
    return "\n".join(line.rstrip() for line in svg.splitlines()) + "\n"


async def record(folder: Path) -> None:
    """Have the demo model answer on the screen, and keep what it and the machine told."""
    nowhere = {f"paths.{one}": str(folder) for one in ("config", "data", "state")}
    chosen = plan(
        {
            "sampling.temperature": 0.8,
            "sampling.seed": 7,
            "trace.keep_text": True,
            **nowhere,
        }
    )
    recorder = Recorder(chosen.settings, is_on=True)
    worker = EngineWorker(recorder.wrap(chosen.open))
    store = SessionStore(folder / "sessions", folder / "drafts")
    app = ChatApp(
        LiveSettings.of(chosen.sources), store, PromptHistory(folder / "history.jsonl"), worker,
        recorder=recorder,
    )  # fmt: skip
    async with app.run_test(size=SIZE):
        while not app.chat.is_free:
            await asyncio.sleep(WAIT_S)
        await asyncio.sleep(REST_S)
        for num, question in enumerate(QUESTIONS, 1):
            app.chat.submit(question)
            while len(app.chat.records) < num or not app.chat.is_free:
                await asyncio.sleep(WAIT_S)
        gauges = app.instruments.gauges
        kept = {
            "load": asdict(gauges.load or LoadReader().read()),
            "share": gauges.share,
            "lag_p95_ms": gauges.lag_p95_ms,
        }
        path = app.chat.session.trace_path
    worker.close()
    recorder.close()
    text = path.read_text(encoding="utf-8")
    for private in (str(ROOT), str(folder)):
        text = text.replace(private, ".")
    RECORDING.write_text(text, encoding="utf-8")
    LOAD.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    app.chat.close()


def main() -> int:
    """Draw the picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", action="store_true", help="have the demo model answer again")
    parser.add_argument("--out", type=Path, default=PICTURE)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if options.record:
            asyncio.run(record(folder))
        options.out.write_text(asyncio.run(take(folder)), encoding="utf-8")
    print(f"wrote {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
