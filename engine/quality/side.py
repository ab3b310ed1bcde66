"""One side of a comparison: a model is opened, reads the texts, writes freely, and is let go."""

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace

from engine.errors import CancelledError, RequestError
from engine.locate import Choice
from engine.model.checkpoint import match_checkpoint
from engine.model.config_file import read_config
from engine.model.state import State
from engine.open import open_engine
from engine.quality.casts import CountedCasts, KeptCodes
from engine.quality.forced import OnPassage
from engine.settings.declared import Settings
from engine.text.tokenizer import Tokenizer
from engine.turn.local import LocalEngine
from engine.turn.turn import Machine
from engine.types import EngineInfo, LoadProgressed, Message, Request, TurnEnded

SEED = 0
"""Of free generation: both sides draw with the same one, keyed by position."""

PROMPTS = (
    "Tell me a story about a lighthouse and the people who live in it.",
    "Explain how a bicycle stays upright, and then write a Python function that sorts words.",
)
"""What both sides are asked; one calls for prose, one for code."""


@dataclass(frozen=True, slots=True)
class Source:
    """What is opened, and with which settings."""

    choice: Choice
    settings: Settings


@dataclass(frozen=True, slots=True)
class Answer:
    """A freely generated answer."""

    prompt: str
    text: str
    token_ids: tuple[int, ...]
    finish_reason: str


@dataclass(frozen=True, slots=True)
class Casts:
    """Casts to e4m3 while texts were read, and values that did not fit; None was not counted.

    Attributes:
        num_casts: of torch.
        num_saturated: values that did not fit.
        num_kept: keys and values that are kept as codes; 0 where they are kept in BF16.
        num_kept_last: those with the largest code, among which are all that did not fit.
    """

    num_casts: int | None = None
    num_saturated: int | None = None
    num_kept: int = 0
    num_kept_last: int = 0


class Side:
    """An opened model.

    Args:
        engine: answers; nobody else uses it.
        stop: cancels what runs.
        count_casts: look at every cast to e4m3 while texts are read.
    """

    def __init__(self, engine: LocalEngine, stop: threading.Event, *, count_casts: bool) -> None:
        self._engine = engine
        self._stop = stop
        self._count = count_casts
        self._kept = KeptCodes()
        self.casts = Casts()

    @property
    def info(self) -> EngineInfo:
        """What is loaded."""
        return self._engine.info

    def read(self, run: Callable[[Machine, State], None]) -> None:
        """Let something read texts over an empty conversation."""
        counted = CountedCasts() if self._count else None
        with counted or nullcontext():
            self._engine.warm_up(lambda machine, memory: run(machine, memory.state))
        of_torch = (counted.num_casts, counted.num_saturated) if counted else (None, None)
        self.casts = Casts(*of_torch, self._kept.num_codes, self._kept.num_last)

    def looking(self, state: State, on_passage: OnPassage) -> OnPassage:
        """What is told after each passage, with a look at the codes that it left."""

        def look(num_scored: int) -> object:
            if state.kv.scales is not None:
                self._kept.look_at(state)
            return on_passage(num_scored)

        return look

    def prompt_ids(self, question: str) -> tuple[int, ...]:
        """A question as a chat asks it, up to where the answer begins."""
        return self._engine.prompt_ids((Message("user", question),), thinking=False)

    def answer(self, prompt: str, max_tokens: int) -> Answer:
        """Generate as a chat would, with the checkpoint's own sampling.

        Raises:
            RequestError: the engine failed on the way.
            CancelledError: the person stopped it.
        """
        request = Request(
            messages=(Message("user", prompt),),
            sampling=replace(self.info.default_sampling, seed=SEED),
            max_tokens=max_tokens,
        )
        for event in self._engine.generate(request, self._stop):
            if isinstance(event, TurnEnded):
                record = event.record
                if record.finish_reason == "error":
                    raise RequestError(
                        f"Free generation failed: {record.error}",
                        "--answer-tokens 0 leaves it out.",
                    )
                expect_not_stopped(self._stop)
                text = f"{record.reasoning}\n{record.text}".strip()
                return Answer(prompt, text, record.token_ids, record.finish_reason)
        raise AssertionError("a turn ends with its record")


def expect_not_stopped(stop: threading.Event) -> None:
    """Raise `CancelledError` once the person has stopped the comparison."""
    if stop.is_set():
        raise CancelledError("The comparison was stopped; nothing was decided.")


def expect_readable(source: Source) -> None:
    """Refuse a model that is no such before another one is read at length; reads headers only.

    Raises:
        CheckpointError: config, tokenizer or the headers of the weights are refused.
    """
    folder = source.choice.path
    config = read_config(folder)
    Tokenizer.load(folder, config.vocab_size)
    match_checkpoint(folder, config, source.choice.overlay)


@contextmanager
def opened(
    source: Source,
    on_load: Callable[[LoadProgressed], None] | None,
    stop: threading.Event,
    *,
    count_casts: bool = False,
) -> Generator[Side]:
    """Open a model for the block; behind it its memory is free, so that the next one has room.

    Raises:
        EngineError: as ``engine.open.open_engine``.
    """
    engine = open_engine(source.choice, source.settings, on_load, stop)
    assert isinstance(engine, LocalEngine)
    try:
        yield Side(engine, stop, count_casts=count_casts)
    finally:
        engine.close()


def progress_of(
    label: str, name: str, total: int, progress: Callable[[str], object], stop: threading.Event
) -> OnPassage:
    """What tells how far a text is read, and stops between two passages."""

    def on_passage(num_scored: int) -> None:
        progress(f"{label}: {name}, {num_scored:,} of {total:,} tokens")
        expect_not_stopped(stop)

    return on_passage
