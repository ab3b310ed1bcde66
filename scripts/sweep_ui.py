#!/usr/bin/env python3
"""What in the screen costs an engine tokens a second: the interval of the interpreter lock, paints.

`scripts/sweep_ui.py --shape 27b --profile nvfp4` draws random weights, answers without the screen
and with it under each setting, in turns, and prints tokens a second and the milliseconds of each
phase of a round. On an H200 it takes about 75 s, most of them to compile kernels.
"""

import argparse
import sys
from statistics import fmean

from app.tui.bench import stage
from app.tui.bench.answers import code
from app.tui.bench.borrowed import Worded
from app.tui.bench.timed_engine import tokens_of
from engine.bench.random_engine import random_engine
from engine.profile import get_profile, load_profiles
from engine.records import PHASES, TurnRecord
from engine.settings.declared import ModelSettings, Settings

INTERVALS_US = (500, 100, 50, 20)
PAINTS = (20, 10)


def main() -> int:
    """Draw, warm up, measure in turns."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shape", default="27b")
    parser.add_argument("--profile", default="nvfp4")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--passes", type=int, default=3)
    arguments = parser.parse_args()
    settings = Settings(model=ModelSettings(device=arguments.device, context_tokens=4096))
    profile = get_profile(arguments.profile, load_profiles())
    drawn, _ = random_engine(arguments.shape, profile, settings, print)
    engine = Worded(drawn, tokens_of(code(2 * arguments.tokens)))
    asked = {"sampling.seed": 0, "sampling.max_tokens": arguments.tokens}
    stage.answer_alone(engine, "go", {**asked, "sampling.max_tokens": 16})
    found: dict[str, list[TurnRecord]] = {}
    for number in range(arguments.passes):
        cases = [
            (us, fps) for fps in PAINTS for us in INTERVALS_US if fps == PAINTS[0] or us == 100
        ]
        for us, fps in cases if number % 2 == 0 else reversed(cases):
            name = f"{us:>4} us, {fps} paints a second"
            stage.SWITCH_SECONDS = us / 1e6
            shown = stage.answer_on_screen(engine, "go", {**asked, "chat.fps": fps})
            found.setdefault(name, []).append(shown.record)
            _tell(
                name, shown.record, f"lag p95 {shown.lag_p95_ms:.1f} ms, CPU {shown.cpu_share:.0%}"
            )
        alone = stage.answer_alone(engine, "go", asked)
        found.setdefault("alone", []).append(alone)
        _tell("alone", alone, "")
    base = fmean(one.decode_tok_s for one in found["alone"])
    for name, records in found.items():
        print(f"{name:<28} {fmean(one.decode_tok_s for one in records) / base:.3f} of alone")
    return 0


def _tell(name: str, record: TurnRecord, more: str) -> None:
    ms = ", ".join(f"{one} {fmean(r.ms[one] for r in record.rounds):.2f}" for one in PHASES)
    print(f"{name:<28} {record.decode_tok_s:6.1f} tok/s  {ms} ms  {more}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
