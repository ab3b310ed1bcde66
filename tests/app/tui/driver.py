"""Run as a program on a terminal: the real chat over a scripted engine.

Usage: python -m tests.app.tui.driver FOLDER SCRIPTS; SCRIPTS is JSON, a list of Script fields.
"""

import json
import sys

from app.tui.run import run_chat
from engine.settings.load import load_settings
from tests.fakes.engine import Script, real_checkpoint_engine


def main() -> int:
    folder, scripts = sys.argv[1], [Script(**one) for one in json.loads(sys.argv[2])]
    named = {f"paths.{name}": f"{folder}/{name}" for name in ("config", "data", "state")}
    settings, sources = load_settings(named)
    engine = real_checkpoint_engine(scripts)
    return run_chat(settings, sources, None, lambda progress, cancel: engine)


if __name__ == "__main__":
    sys.exit(main())
