"""Recordings of scripted and of exact engines, made the way the program makes them."""

import threading
from dataclasses import replace

from app.trace.read import Source, TraceReader
from app.trace.record import Recorder
from engine.records import RoundRecord, TurnRecord
from engine.settings.load import load_settings
from engine.types import (
    Message,
    NoticeRaised,
    PromptProgressed,
    Request,
    RoundEnded,
    Sampling,
    TextArrived,
    TurnEnded,
)
from tests.fakes.engine import INFO, Script, ScriptedEngine

SECRET = "my secret prompt"


def settings_in(folder, **changed):
    paths = {f"paths.{name}": str(folder / name) for name in ("config", "data", "state")}
    named = {name.replace("__", "."): value for name, value in changed.items()}
    return load_settings({**paths, **named})[0]


def make_recorder(folder, *, is_on=None, **changed):
    return Recorder(settings_in(folder, **changed), is_on=is_on)


def ask(engine, text=SECRET, **fields):
    request = Request(messages=(Message("user", text),), sampling=Sampling(seed=7), **fields)
    return list(engine.generate(request, threading.Event()))


def opened(recorder, engine):
    return recorder.wrap(lambda progress, cancel: engine)(lambda _: None, threading.Event())


def record(folder, *scripts, engine=None, num_turns=None, path=None, **changed):
    """Record a turn for each script; returns the file and what came out of the engine."""
    recorder = make_recorder(folder, **changed)
    path = path or folder / "session.trace"
    recorder.follow(path)
    traced = opened(recorder, engine or ScriptedEngine(list(scripts) or [Script()]))
    records = []
    for _ in range(num_turns or len(scripts) or 1):
        records += [one.record for one in ask(traced) if isinstance(one, TurnEnded)]
    recorder.close()
    return path, records


def read(path):
    return list(TraceReader(Source(path)).turns())


class ExactEngine:
    """Says rounds whose times add up, without waiting for them: turn after turn on its own clock.

    ``rounds`` rounds of ``ms`` each, three tokens a round, behind a first token at 50 ms.
    """

    info = replace(INFO, is_demo=False, model="Qwen3.8-27B", profile="nvfp4", read_gb_s=200.0)

    def __init__(self, rounds=10, ms=(2.0, 16.0, 1.0, 1.0), num_bytes=2_000_000, drafter="mtp"):
        self.num_rounds, self.ms, self.num_bytes, self.drafter = rounds, ms, num_bytes, drafter

    def generate(self, request, stop):
        yield PromptProgressed(30, 40, 10, 1000.0)
        yield PromptProgressed(40, 40, 10, 1000.0)
        yield NoticeRaised("a slower path")
        yield TextArrived("one", "answer")
        rounds = []
        for index in range(self.num_rounds):
            rounds.append(self.round(index))
            yield TextArrived(" two three four", "answer")
            yield RoundEnded(rounds[-1])
        yield TurnEnded(self.record(rounds))

    def round(self, index):
        ms = dict(zip(("draft", "verify", "accept", "host"), self.ms, strict=True))
        accepted = (3, 2, 0)[index % 3]
        return RoundRecord(
            index, self.drafter, "chain", 4, min(accepted + 1, 3), accepted, (7, 8, 9),
            40 + 3 * index, 0.05 + index * sum(self.ms) / 1e3, ms,
            {"weights": self.num_bytes, "head": 0, "state": 0, "kv": 0, "drafter": 0},
        )  # fmt: skip

    def record(self, rounds):
        decode_s = len(rounds) * sum(self.ms) / 1e3
        ids = (6, *(one for each in rounds for one in each.token_ids))
        text = " ".join(["one", *["two three four"] * len(rounds)])
        return TurnRecord(
            text, "", ids, "stop", 40, 10, 0.05, 0.05 + decode_s + 0.01, 1000.0,
            (len(ids) - 1) / decode_s, tuple(rounds), (), 7,
        )  # fmt: skip

    def count_tokens(self, messages):
        return 40

    def text_tokens(self, text):
        return len(text.split())

    def token_texts(self, token_ids):
        return [f" w{one}" for one in token_ids]

    def measure_again(self):
        pass

    def close(self):
        pass
