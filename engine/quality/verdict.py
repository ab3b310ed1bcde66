"""The figures of a comparison, and the bar that decides."""

from dataclasses import dataclass
from math import isfinite, isnan

import numpy as np

from engine.quality.forced import Comparison, Expectation
from engine.quality.interval import Interval, paired_interval
from engine.quality.repetition import Repetition
from engine.quality.texts import Sample

BAR_NATS = 0.05
"""Most that the loss may rise on the text where it rises most."""

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
        """Why the candidate fails, in sentences; empty when it passes."""
        found: list[str] = []
        worse = self.worse
        # written so that a loss that is no number fails
        if not isfinite(worse.candidate_loss):
            found.append(f"The candidate's loss on {worse.name} is no number.")
        elif not worse.difference.mean <= BAR_NATS:
            found.append(
                f"The loss rises by {worse.difference.mean:+.4f} nats on {worse.name}, "
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
    def passed(self) -> bool:
        """Whether the candidate may take the reference's place."""
        return not self.failures

    @property
    def is_sure(self) -> bool:
        """Whether the interval of every text lies on one side of the bar."""
        return all(
            not isfinite(one.candidate_loss)
            or one.difference.high <= BAR_NATS
            or one.difference.low > BAR_NATS
            for one in self.texts
        )


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
