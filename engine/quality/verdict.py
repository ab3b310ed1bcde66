"""The figures of a comparison, and the bar that decides."""

from dataclasses import dataclass
from math import isfinite, isnan

import numpy as np

from engine.quality.forced import Comparison, Expectation
from engine.quality.interval import LEAST_TOKENS, Interval, paired_interval
from engine.quality.repetition import Repetition
from engine.quality.texts import Sample

BAR_NATS = 0.05
"""Most that the loss may rise on the text where it rises most."""

MOST_TOKENS = 200_000
"""Beyond that no longer text is asked for."""

SAFETY = 1.5
"""Of a length that is asked for, which a text of other words may need."""

CONFIDENT = 0.9
"""Probability from which the reference is sure of its first choice."""


@dataclass(frozen=True, slots=True)
class TextFigures:
    """One text. Losses in nats a token; agreement as a share of positions.

    Attributes:
        name: of the text.
        sha256: of the text.
        num_tokens: positions that were predicted.
        reference_loss: mean.
        candidate_loss: mean.
        difference: candidate minus reference, with its interval.
        agreement: both have the same first choice.
        num_confident: positions where the reference gives its first choice ``CONFIDENT`` or more.
        confident_agreement: of these; 1 where there is none.
        divergence: mean KL(reference || candidate) over the reference's first 256 ids and the rest.
        worst_divergence: its 99th percentile.
    """

    name: str
    sha256: str
    num_tokens: int
    reference_loss: float
    candidate_loss: float
    difference: Interval
    agreement: float
    num_confident: int
    confident_agreement: float
    divergence: float
    worst_divergence: float


@dataclass(frozen=True, slots=True)
class Written:
    """One question, answered freely by both."""

    prompt: str
    reference: Repetition
    candidate: Repetition
    reference_text: str
    candidate_text: str
    common_tokens: int | None
    """Tokens before the two answers part; None where they are the same."""

    @property
    def is_worse(self) -> bool:
        """Whether the candidate loops where the reference does not."""
        return self.candidate.is_looping and not self.reference.is_looping


@dataclass(frozen=True, slots=True)
class Verdict:
    """All figures and what they decide."""

    texts: tuple[TextFigures, ...]
    written: tuple[Written, ...]

    @property
    def worse(self) -> TextFigures:
        """The text whose loss rises most; one whose loss is no number before all others."""
        return max(self.texts, key=lambda one: (isnan(one.difference.mean), one.difference.mean))

    @property
    def failures(self) -> tuple[str, ...]:
        """Why the candidate fails, in sentences; empty where nothing is shown against it."""
        found: list[str] = []
        # written so that a loss that is no number fails
        failing = [one for one in self.texts if not one.difference.low <= BAR_NATS]
        if not isfinite(self.worse.candidate_loss):
            found.append(f"The candidate's loss on {self.worse.name} is no number.")
        elif failing:
            worst = max(failing, key=lambda one: one.difference.mean)
            found.append(
                f"The loss rises by {_told(worst.difference)} on {worst.name}, "
                f"more than {BAR_NATS:+.2f}."
            )
        for one in (one for one in self.written if one.is_worse):
            loop = one.candidate
            found.append(
                f"The candidate says {loop.loop_period} tokens over and over ({loop.loop_tokens} "
                f"in all) where the reference does not; it was asked: {one.prompt}"
            )
        return tuple(found)

    @property
    def doubts(self) -> tuple[str, ...]:
        """What the texts are too short to decide, in sentences, each with how to mend it."""
        return tuple(
            f"The loss changes by {_told(one.difference)} on {one.name}, and {one.num_tokens:,} "
            f"tokens do not tell on which side of {BAR_NATS:+.2f} that is. {_longer(one)}"
            for one in self.texts
            if one.difference.low <= BAR_NATS < one.difference.high
        )

    @property
    def passed(self) -> bool:
        """Whether it is shown that the candidate may take the reference's place."""
        return not self.failures and not self.doubts

    @property
    def is_decided(self) -> bool:
        """Whether the candidate is shown to pass or to fail."""
        return bool(self.failures) or not self.doubts


def _told(difference: Interval) -> str:
    half = difference.half
    return f"{difference.mean:+.4f}" + (f" ± {half:.4f} nats" if isfinite(half) else " nats")


def _longer(one: TextFigures) -> str:
    """What text would decide: an interval is as wide as the root of its tokens is small."""
    longer = "Give a longer text with --text or --talks"
    if not isfinite(one.difference.half):
        return f"{longer}, of {LEAST_TOKENS} tokens or more."
    distance = max(abs(BAR_NATS - one.difference.mean), one.difference.half / 100)
    needed = SAFETY * one.num_tokens * (one.difference.half / distance) ** 2
    if needed > MOST_TOKENS:
        return f"It is {BAR_NATS:+.2f} as far as any text can tell."
    return f"{longer}, of about {round(needed, 1 - len(str(int(needed)))):,.0f} tokens."


def figures_of(text: Sample, expected: Expectation, found: Comparison) -> TextFigures:
    """Sum up what both sides said of a text."""
    agrees = expected.top_ids[:, 0] == found.chosen
    confident = expected.top_logprobs[:, 0] >= np.log(CONFIDENT)
    num_confident = int(confident.sum())
    return TextFigures(
        name=text.name,
        sha256=text.sha256,
        num_tokens=len(found.loss),
        reference_loss=float(expected.loss.mean()),
        candidate_loss=float(found.loss.mean()),
        difference=paired_interval(found.loss - expected.loss),
        agreement=float(agrees.mean()),
        num_confident=num_confident,
        confident_agreement=float(agrees[confident].mean()) if num_confident else 1.0,
        divergence=float(found.divergence.mean()),
        worst_divergence=float(np.quantile(found.divergence, 0.99)),
    )
