#!/usr/bin/env python3
"""Prove that speculation changes no bit: every drafter and shape against plain decode.

`scripts/lossless.py --model demo --prompts 20 --tokens 1000` runs the demo on a CPU;
`scripts/lossless.py --model 27b --profile nvfp4 --prompts 4 --tokens 250` random weights of the
27B's full size on a GPU. Each prompt is answered greedily and with seeded draws. The ids and the
fp32 logits must be plain decode's, bit for bit, and the rounds must say that the drafter and the
shape that were asked for ran. Last a conversation goes on after it was forgotten, and is computed
again as its records say: to the same bits. Exit status 1 when any differs.

A part of it: `--first` and `--prompts` for the prompts, `--sampling` and `--drafter` for the ways
to answer them, `--seconds` for as many as fit. `--kv fp8` keeps keys and values in 8 bits;
`--dflash` draws a DFlash2 drafter beside random weights, which `auto` then weighs too;
`--launches sm_121` rehearses the launches of a GB10 on another GPU.
"""

import argparse
import hashlib
import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import inf
from pathlib import Path
from string import ascii_lowercase

import torch

from engine.bench.random_engine import DEMO, random_engine
from engine.errors import EngineError
from engine.locate import Choice
from engine.open import open_engine
from engine.profile import get_profile, load_profiles
from engine.records import TurnRecord
from engine.settings.declared import KernelSettings, ModelSettings, Settings
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
WITH_DFLASH = (("dflash2", "chain"), ("dflash2", "tree"))
SAMPLINGS = {
    "greedy": Sampling(temperature=0.0),
    # what was said is likelier to be said again, so that lookup finds something
    "seeded": Sampling(temperature=0.8, top_k=40, top_p=0.95, presence_penalty=-2.0, seed=1234),
}


def main() -> int:
    """Run the cases that the command line asks for."""
    arguments = _arguments()
    ends_s = time.perf_counter() + arguments.seconds
    engine = _opened(arguments)
    ways = [
        one
        for one in (*CASES, *(WITH_DFLASH if arguments.dflash else ()))
        if one[0] in (arguments.drafter or [one[0]])
    ]
    cases: list[dict[str, object]] = []
    for number in range(arguments.first, arguments.first + arguments.prompts):
        for name in arguments.sampling or SAMPLINGS:
            request = Request(
                prompt_ids=_prompt(number), sampling=SAMPLINGS[name], keep_logits=True,
                max_tokens=arguments.tokens, ignore_stop_ids=True,
            )  # fmt: skip
            cases += _compared(engine, request, ways, f"prompt {number} {name}", ends_s)
    if time.perf_counter() < ends_s:
        cases.append(_resumed(engine, arguments.tokens))
    else:
        print(f"the {arguments.seconds:.0f} s were over before all was answered")
    if arguments.json is not None:
        told = {"arithmetic": engine.info.arithmetic, "cases": cases}
        arguments.json.write_text(json.dumps(told), encoding="utf-8")
    num_faults = sum(bool(one["faults"]) for one in cases)
    print(f"{len(cases)} answers of {arguments.tokens} tokens, {num_faults} that differ")
    return 1 if num_faults or not cases else 0


def _compared(
    engine: LocalEngine,
    request: Request,
    ways: Sequence[tuple[str, str]],
    about: str,
    ends_s: float,
) -> Iterator[dict[str, object]]:
    """Answer without drafts, then in every way there is time for; say what is not as it must be."""
    if time.perf_counter() >= ends_s:
        return
    wanted = _answer(engine, replace(request, drafter="off"))
    for drafter, shape in ways:
        began_s = time.perf_counter()
        if began_s >= ends_s:
            return
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
    parser.add_argument("--kv", choices=("bf16", "fp8"), help="format of keys and values")
    parser.add_argument("--dflash", action="store_true", help="draw a DFlash2 drafter")
    parser.add_argument("--launches", default="auto", help="whose launch choices kernels make")
    parser.add_argument("--prompts", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="number of the first prompt")
    parser.add_argument("--tokens", type=int, default=1000)
    parser.add_argument("--sampling", action="append", choices=SAMPLINGS)
    names = dict.fromkeys(name for name, _ in (*CASES, *WITH_DFLASH))
    parser.add_argument("--drafter", action="append", choices=names)
    parser.add_argument("--seconds", type=float, default=inf, help="no answer begins after them")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if arguments.dflash and arguments.model == "demo":
        parser.error("--dflash draws a drafter for random weights: --model small or 27b")
    return arguments


def _opened(arguments: argparse.Namespace) -> LocalEngine:
    """The demo's checkpoint, or random weights with its tokenizer; no token ends an answer."""
    place = ModelSettings(device=arguments.device, kv=arguments.kv)
    kernels = KernelSettings(launches=arguments.launches)
    if arguments.model != "demo":
        shape = "27b" if arguments.model == "27b" else "demo"
        place = replace(place, context_tokens=512 + arguments.tokens)
        profile = get_profile(arguments.profile, load_profiles())
        settings = Settings(model=place, kernels=kernels)
        return random_engine(shape, profile, settings, with_dflash=arguments.dflash)[0]
    chosen = Choice(DEMO, get_profile("demo", load_profiles()), is_demo=True)
    settings = Settings(model=place, kernels=kernels)
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
    if not _same_bits(got, wanted):
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


def _same_bits(one: TurnRecord, other: TurnRecord) -> bool:
    if one.logits is None or other.logits is None:
        return False
    return torch.equal(one.logits.view(torch.int32), other.logits.view(torch.int32))


def _digest(record: TurnRecord) -> str:
    return hashlib.sha256(record.logits.numpy().data).hexdigest()


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
