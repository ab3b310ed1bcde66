"""Take the README's picture: the real chat over the real demo model, as SVG.

    .venv/bin/python scripts/picture.py [--out scripts/picture/screen.svg]

Needs no terminal. The rates in the picture are those of the machine it was taken on.
"""

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from app.live import LiveSettings
from app.opening import plan
from app.sessions.history import PromptHistory
from app.sessions.store import SessionStore
from app.tui.chat import ChatApp
from app.tui.worker import EngineWorker

SIZE = (112, 28)
QUESTIONS = ("what is a volcano?", "why is the sky blue?", "tell me a story")
"""The last one is still being answered when the picture is taken."""

MID_ANSWER_TOKENS = 24
WAIT_S = 0.02


async def take(folder: Path) -> str:
    """Return the screen as SVG while the last question is answered."""
    chosen = plan({"sampling.seed": 1, "sampling.temperature": 0, "paths.config": str(folder)})
    worker = EngineWorker(chosen.open)
    store = SessionStore(folder / "sessions", folder / "drafts")
    history = PromptHistory(folder / "history.jsonl")
    app = ChatApp(LiveSettings.of(chosen.sources), store, history, worker)
    async with app.run_test(size=SIZE):
        for question in QUESTIONS:
            while app.chat.phase != "idle":
                await asyncio.sleep(WAIT_S)
            app.chat.submit(question)
        while not app.chat.rates or app.chat.rates.num_tokens < MID_ANSWER_TOKENS:
            await asyncio.sleep(WAIT_S)
        svg = app.export_screenshot(title="qwen38 chat")
    worker.close()
    app.chat.close()
    return svg


def main() -> int:
    """Write the picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "picture/screen.svg")
    out = parser.parse_args().out
    with tempfile.TemporaryDirectory() as folder:
        svg = asyncio.run(take(Path(folder)))
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text("\n".join(line.rstrip() for line in svg.splitlines()) + "\n", encoding="utf-8")
    print(f"wrote {out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
