"""Compare a candidate with a reference, one model after the other, and decide."""

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest
from math import isfinite

from engine.errors import CheckpointError, RequestError
from engine.model.state import State
from engine.quality.forced import (
    WINDOW_TOKENS,
    Comparison,
    Expectation,
    Passage,
    Reading,
    compare_text,
    expect_text,
    windows_of,
)
from engine.quality.repetition import repetition_of
from engine.quality.side import (
    PROMPTS,
    Answer,
    Casts,
    Side,
    Source,
    expect_readable,
    opened,
    progress_of,
)
from engine.quality.texts import Sample, Talks
from engine.quality.verdict import Verdict, Written, figures_of
from engine.turn.turn import Machine
from engine.types import EngineInfo, LoadProgressed

CONTEXT_TOKENS = 4096
"""Context that both sides are opened with: a window of text, or a question and its answer."""

MAX_ANSWER_TOKENS = 3072
"""Longest free answer, so that its question has room as well."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A comparison and who took part.

    Attributes:
        verdict: the figures and the decision.
        reference: what was loaded first.
        candidate: what was loaded then.
        casts: of the reference and of the candidate.
    """

    verdict: Verdict
    reference: EngineInfo
    candidate: EngineInfo
    casts: tuple[Casts, Casts] = (Casts(), Casts())

    @property
    def is_one_model(self) -> bool:
        """Whether both sides held the same weights, as two profiles of stored formats do."""
        one, other = self.reference, self.candidate
        return (one.path, one.weight_bytes, one.arithmetic) == (
            other.path, other.weight_bytes, other.arithmetic,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Reference:
    """What is kept of the reference: its words about every text, and its answers."""

    info: EngineInfo
    readings: list[Reading]
    expected: list[Expectation]
    answers: list[Answer]
    casts: Casts


def judge(
    reference: Source,
    candidate: Source,
    texts: Sequence[Sample],
    *,
    answer_tokens: int,
    window_tokens: int = WINDOW_TOKENS,
    progress: Callable[[str], object],
    stop: threading.Event,
    on_load: Callable[[LoadProgressed], None] | None = None,
    count_casts: bool = False,
) -> Judged:
    """Measure both sides and decide.

    Only one model is in memory at a time; of the reference's logits 2 kB a position are kept.

    Args:
        reference: what is right.
        candidate: what would take its place; may be the same files under another profile.
        texts: one or more, each of at least two tokens.
        answer_tokens: longest free answer to each of two questions; 0 writes none.
        window_tokens: of a text that are read from an empty state.
        progress: called with a sentence for each step.
        stop: stops between two passages.
        on_load: called as weights arrive.
        count_casts: look at every cast to e4m3 while texts are read.

    Raises:
        RequestError: the two have different tokenizers, a text has no token to predict, or answers
            or windows have no room.
        CancelledError: ``stop`` was set.
        CheckpointError: the reference's loss is no number.
        EngineError: one of them does not open.
    """
    if not 0 <= answer_tokens <= MAX_ANSWER_TOKENS:
        raise RequestError(
            f"Free answers of {answer_tokens} tokens are asked for, "
            f"expected 0 to {MAX_ANSWER_TOKENS}."
        )
    if not 1 <= window_tokens <= CONTEXT_TOKENS:
        raise RequestError(
            f"Windows of {window_tokens} tokens are asked for, expected 1 to {CONTEXT_TOKENS}."
        )
    expect_readable(candidate)
    prompts = PROMPTS if answer_tokens else ()
    with opened(_narrowed(reference), on_load, stop, count_casts=count_casts) as side:
        kept = _read_reference(side, texts, window_tokens, progress, stop)
        kept.answers.extend(_answers(side, "reference", prompts, answer_tokens, progress))
    with opened(_narrowed(candidate), on_load, stop, count_casts=count_casts) as side:
        found = _read_candidate(side, texts, window_tokens, kept, progress, stop)
        figures = tuple(map(figures_of, texts, kept.expected, found))
        # nothing is drawn from logits that are no numbers: such a candidate has failed already
        asked = prompts if all(isfinite(one.candidate_loss) for one in figures) else ()
        answers = _answers(side, "candidate", asked, answer_tokens, progress)
        info, casts = side.info, side.casts
    written = tuple(map(_written, kept.answers, answers))
    return Judged(Verdict(figures, written), kept.info, info, (kept.casts, casts))


def _narrowed(source: Source) -> Source:
    """The source with the context that is needed here, which a long conversation is not."""
    model = replace(source.settings.model, context_tokens=CONTEXT_TOKENS)
    return replace(source, settings=replace(source.settings, model=model))


def _read_reference(
    side: Side,
    texts: Sequence[Sample],
    window_tokens: int,
    progress: Callable[[str], object],
    stop: threading.Event,
) -> _Reference:
    readings: list[Reading] = []
    expected: list[Expectation] = []

    def read(machine: Machine, state: State) -> None:
        for text in texts:
            reading = _reading(side, machine, text, window_tokens)
            told = progress_of("reference", text.name, reading.num_scored, progress, stop)
            readings.append(reading)
            told = side.looking(state, told)
            expectation = expect_text(machine.model, state, reading, told)
            if not isfinite(expectation.loss.mean()):
                raise CheckpointError(
                    f"The reference's loss on {text.name} is no number: weights of "
                    f"{side.info.path} are none.",
                    "Download its checkpoint again, or compare with another one.",
                )
            expected.append(expectation)

    side.read(read)
    return _Reference(side.info, readings, expected, [], side.casts)


def _read_candidate(
    side: Side,
    texts: Sequence[Sample],
    window_tokens: int,
    kept: _Reference,
    progress: Callable[[str], object],
    stop: threading.Event,
) -> list[Comparison]:
    found: list[Comparison] = []

    def read(machine: Machine, state: State) -> None:
        for text, reading, expected in zip(texts, kept.readings, kept.expected, strict=True):
            if _reading(side, machine, text, window_tokens) != reading:
                raise RequestError(
                    f"The candidate's tokenizer reads the text '{text.name}' as other tokens than "
                    "the reference's does.",
                    "Compare two checkpoints of one model.",
                )
            told = progress_of("candidate", text.name, reading.num_scored, progress, stop)
            told = side.looking(state, told)
            found.append(compare_text(machine.model, state, reading, expected, told))

    side.read(read)
    return found


def _reading(side: Side, machine: Machine, text: Sample, window_tokens: int) -> Reading:
    # control tokens that a text spells out are text
    encode = partial(machine.tokenizer.encode, control=False)
    if isinstance(text, Talks):
        asked = [(side.prompt_ids(question), encode(answer)) for question, answer in text.pairs]
        passages = tuple(Passage((*ids, *answer), len(ids)) for ids, answer in asked)
    else:
        passages = windows_of(encode(text.body), window_tokens)
    reading = Reading(passages, machine.tokenizer.num_ids)
    if not reading.num_scored:
        raise RequestError(f"The text '{text.name}' has no token to predict.", "Give a longer one.")
    return reading


def _answers(
    side: Side,
    label: str,
    prompts: Iterable[str],
    max_tokens: int,
    progress: Callable[[str], object],
) -> list[Answer]:
    found: list[Answer] = []
    for prompt in prompts:
        progress(f"{label}: writing up to {max_tokens} tokens")
        found.append(side.answer(prompt, max_tokens))
    return found


def _written(reference: Answer, candidate: Answer) -> Written:
    pairs = zip_longest(reference.token_ids, candidate.token_ids)
    differing = (place for place, (one, other) in enumerate(pairs) if one != other)
    return Written(
        reference.prompt,
        repetition_of(reference.token_ids),
        repetition_of(candidate.token_ids),
        reference.text,
        candidate.text,
        next(differing, None),
    )
