"""Run as a program: the real command line over a scripted engine, for tests in subprocesses.

Usage: python -m tests.app.driver SCRIPT [qwen38's own arguments]; SCRIPT is JSON, a list of the
fields of `tests.fakes.engine.Script`, where ``refuses`` is the sentence of a RequestError. The file
that the variable WRITING names is there once an answer has a round.
"""

import json
import sys
import types
from dataclasses import replace
from pathlib import Path

from engine.errors import RequestError
from engine.settings.environment import child_environment
from engine.types import RoundEnded
from tests.fakes.engine import INFO, Script, ScriptedEngine


class TellingEngine(ScriptedEngine):
    def generate(self, request, stop):
        writing = child_environment({}).get("WRITING")
        for event in super().generate(request, stop):
            yield event
            if writing is not None and isinstance(event, RoundEnded):
                Path(writing).touch()


def main():
    scripts = [Script(**one) for one in json.loads(sys.argv.pop(1))] or [Script()]
    scripts = [
        replace(one, refuses=RequestError(one.refuses)) if isinstance(one.refuses, str) else one
        for one in scripts
    ]
    fake = types.ModuleType("engine.open")

    def open_engine(choice, settings, on_progress, cancel):
        return TellingEngine(scripts, INFO)

    fake.open_engine = open_engine
    sys.modules["engine.open"] = fake

    import app.opening
    from engine.locate import Choice
    from engine.profile import load_profiles

    app.opening.choose = lambda settings, profiles: Choice(
        Path("/nowhere"), load_profiles()["demo"], is_demo=True
    )
    from app.cli import main as run_command

    run_command()


if __name__ == "__main__":
    main()
