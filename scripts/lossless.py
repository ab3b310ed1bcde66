#!/usr/bin/env python3
"""Prove that speculation changes no bit: every drafter and shape against plain decode.

`scripts/lossless.py --model demo --prompts 20 --tokens 1000` runs the demo on a CPU;
`scripts/lossless.py --model 27b --profile nvfp4 --prompts 4 --tokens 250` random weights of the
27B's full size on a GPU. Each prompt is answered greedily and with seeded draws. The ids and the
sha256 of the fp32 logits must be plain decode's, and the rounds must say that the drafter and the
shape that were asked for ran. Last a conversation goes on after it was forgotten, and is computed
again as its records say: to the same bits. Exit status 1 when any differs.
"""

import argparse
import hashlib
import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from string import ascii_lowercase

import torch

from engine.bench.random_engine import DEMO, random_engine
from engine.errors import EngineError
from engine.locate import Choice
from engine.open import open_engine
from engine.profile import get_profile, load_profiles
from engine.records import TurnRecord
from engine.settings.declared import ModelSettings, Settings
from engine.text.tokenizer import Tokenizer
from engine.turn.local import LocalEngine
from engine.types import Message, Request, Sampling, TurnEnded

CASES = (
    ("mtp", "chain"),
    *(
        (name, shape)
        for name in ("lookup", "wrong", "half", "replay")
        for shape in ("chain", "tree")
    ),
    ("auto", "auto"),
)
SAMPLINGS = {
    "greedy": Sampling(temperature=0.0),
    # what was said is likelier to be said again, so that lookup finds something
    "seeded": Sampling(temperature=0.8, top_k=40, top_p=0.95, presence_penalty=-2.0, seed=1234),
}


def main() -> int:
    """Run the cases that the command line asks for."""
    arguments = _arguments()
    engine = _opened(arguments.model, arguments.profile, arguments.device, arguments.tokens)
    cases: list[dict[str, object]] = []
    for number in range(arguments.first, arguments.first + arguments.prompts):
        for name, sampling in SAMPLINGS.items():
            request = Request(
                prompt_ids=_prompt(number), sampling=sampling, max_tokens=arguments.tokens,
                keep_logits=True, ignore_stop_ids=True,
            )  # fmt: skip
            cases += _compared(engine, request, f"prompt {number} {name}")
    cases.append(_resumed(engine, arguments.tokens))
    if arguments.json is not None:
        told = {"arithmetic": engine.info.arithmetic, "cases": cases}
        arguments.json.write_text(json.dumps(told), encoding="utf-8")
    num_faults = sum(bool(one["faults"]) for one in cases)
    print(f"{len(cases)} answers of {arguments.tokens} tokens, {num_faults} that differ")
    return 1 if num_faults else 0


def _compared(engine: LocalEngine, request: Request, about: str) -> Iterator[dict[str, object]]:
    """Answer without drafts, then in every way, and say what is not as it must be."""
    wanted = _answer(engine, replace(request, drafter="off"))
    for drafter, shape in CASES:
        began_s = time.perf_counter()
        got = _answer(
            engine,
            replace(request, drafter=drafter, draft_shape=shape, replay_ids=wanted.token_ids),
        )
        case, faults = f"{about} {drafter} {shape}", _faults(wanted, got, drafter, shape)
        seconds = time.perf_counter() - began_s
        print(
            f"{case:<36}{_told(got)} {seconds:6.1f} s  {', '.join(faults) or 'equal'}", flush=True
        )
        yield {"case": case, "sha256": _digest(got), "faults": faults}


def _resumed(engine: LocalEngine, num_tokens: int) -> dict[str, object]:
    """Go on with a conversation that is held, and with the same one when it no longer is."""
    tokenizer = Tokenizer.load(DEMO, 1 << 20)
    # letters alone, which a template writes as they were generated
    letters = sorted({tokenizer.encode(one, control=False)[0] for one in ascii_lowercase})
    request = Request(
        sampling=replace(SAMPLINGS["seeded"], logit_bias=tuple((one, 1e3) for one in letters)),
        max_tokens=max(2, num_tokens // 4), keep_logits=True, ignore_stop_ids=True,
        drafter="auto",
    )  # fmt: skip
    messages: tuple[Message, ...] = ()
    for question in ("what is a glacier?", "and a river?"):
        messages = (*messages, Message("user", question))
        record = _answer(engine, replace(request, messages=messages))
        messages = (*messages, Message("assistant", record.text, record.reasoning, record))
    asked = replace(request, messages=(*messages, Message("user", "go on")), drafter="mtp")
    wanted = _answer(engine, asked)
    _answer(engine, Request(prompt_ids=(1, 2, 3), max_tokens=1))
    got = _answer(engine, asked)
    faults = _faults(wanted, got, "mtp", "chain")
    if got.ranges != wanted.ranges:
        faults.append("computed in other ranges")
    num_decoded = sum(one.end - one.start for one in got.ranges[:-1] if one.how == "decode")
    if not num_decoded or got.reused_tokens or got.reread_tokens != wanted.reused_tokens:
        faults.append(f"{got.reread_tokens} read again, {num_decoded} as decoded")
    verdict = ", ".join(faults) or "equal"
    print(f"resumed: {got.reread_tokens} tokens again, {num_decoded} as decoded  {verdict}")
    return {"case": "resumed", "sha256": _digest(got), "faults": faults}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=("demo", "27b", "small"), default="demo")
    parser.add_argument("--profile", default="nvfp4", help="formats of random weights")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--prompts", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="number of the first prompt")
    parser.add_argument("--tokens", type=int, default=1000)
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def _opened(model: str, profile: str, device: str, num_tokens: int) -> LocalEngine:
    """The demo's checkpoint, or random weights with its tokenizer; no token ends an answer."""
    if model != "demo":
        shape = "27b" if model == "27b" else "demo"
        place = ModelSettings(device=device, context_tokens=512 + num_tokens)
        return random_engine(shape, get_profile(profile, load_profiles()), Settings(model=place))[0]
    chosen = Choice(DEMO, get_profile("demo", load_profiles()), is_demo=True)
    settings = Settings(model=ModelSettings(device=device))
    engine = open_engine(chosen, settings, None, threading.Event())
    assert isinstance(engine, LocalEngine)
    return engine


def _prompt(number: int) -> tuple[int, ...]:
    """Ids of a prompt: of any length up to 300, with some repetition."""
    size = 11 + 29 * number % 290
    return tuple(5 + (7 + number) * one % (97 + 40 * number) for one in range(size))


def _answer(engine: LocalEngine, request: Request) -> TurnRecord:
    for event in engine.generate(request, threading.Event()):
        if isinstance(event, TurnEnded):
            return event.record
    raise EngineError("The engine ended a turn without a record.")


def _faults(wanted: TurnRecord, got: TurnRecord, drafter: str, shape: str) -> list[str]:
    """What is not as it must be."""
    faults = [got.error] if got.error else []
    if got.token_ids != wanted.token_ids:
        faults.append("other ids")
    if _digest(got) != _digest(wanted):
        faults.append("other logits")
    names, shapes = ({getattr(one, key) for one in got.rounds} for key in ("drafter", "shape"))
    accepted, tested = (
        sum(getattr(one, key) for one in got.rounds) for key in ("accepted", "tested")
    )
    if drafter != "auto" and names != {drafter}:
        faults.append(f"drafted by {sorted(names)}")
    if shape == "chain" and shapes != {"chain"}:
        faults.append("trees ran")
    # one proposal has no room for a sibling
    if drafter in ("wrong", "half", "replay") and any(
        one.shape != shape for one in got.rounds if one.rows > 2
    ):
        faults.append(f"rounds of another shape than {shape}")
    if (drafter == "wrong" and accepted) or (drafter == "replay" and accepted != tested):
        faults.append(f"{accepted} of {tested} accepted")
    if drafter in ("half", "replay") and not accepted:
        faults.append("nothing accepted")
    return faults


def _digest(record: TurnRecord) -> str:
    return hashlib.sha256(record.logits.numpy().tobytes()).hexdigest()


def _told(record: TurnRecord) -> str:
    rounds = record.rounds
    shapes = Counter(one.shape for one in rounds)
    tokens = sum(len(one.token_ids) for one in rounds) / max(len(rounds), 1)
    drafters = "+".join(sorted({one.drafter for one in rounds}))
    return (
        f"{len(rounds):>5} rounds ({shapes['chain']} chain, {shapes['tree']} tree) by "
        f"{drafters:<12} "
        f"{tokens:5.2f} tokens a round"
    )


if __name__ == "__main__":
    torch.manual_seed(0)
    sys.exit(main())
