"""What a model expects of every token of a text, read as it stands (teacher-forced), in fp32.

A text is read in passages, each from an empty state, so that memory stays that of one passage. Of a
reference only the most likely ids are kept: 2 kB a position, where whole rows of the 27B have 1 MB.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from engine.model.decoder import Model
from engine.model.state import State
from kernels.common.round import MAX_ROWS

WINDOW_TOKENS = 1024
"""Tokens of a running text that are read from an empty state where nobody says otherwise."""

TOP = 256
"""Most likely ids of a reference over which divergence is summed."""

OnPassage = Callable[[int], object]
"""Called after each passage with the positions scored so far."""


@dataclass(frozen=True, slots=True)
class Passage:
    """Tokens that are read from an empty state; those from ``first`` on, at least 1, are scored."""

    ids: tuple[int, ...]
    first: int = 1


@dataclass(frozen=True, slots=True)
class Reading:
    """How a text is read; both sides read alike.

    Attributes:
        passages: in order.
        num_ids: ids in use; the head's rows from here on are padding that nothing chooses.
    """

    passages: tuple[Passage, ...]
    num_ids: int

    @property
    def num_scored(self) -> int:
        """Positions that are predicted."""
        return sum(len(one.ids) - one.first for one in self.passages)


def windows_of(ids: Sequence[int], window_tokens: int = WINDOW_TOKENS) -> tuple[Passage, ...]:
    """Cut a running text: each token but the first is predicted once.

    Args:
        ids: of the text.
        window_tokens: most tokens that are read from an empty state.
    """
    starts = range(0, len(ids) - 1, window_tokens)
    return tuple(Passage(tuple(ids[start : start + window_tokens + 1])) for start in starts)


@dataclass(frozen=True, slots=True)
class Expectation:
    """What a reference expects of n positions.

    Attributes:
        loss: fp64 [n], -log p of the token that stands there, in nats.
        top_ids: int32 [n, k], the k most likely ids, falling.
        top_logprobs: fp32 [n, k], theirs.
    """

    loss: NDArray[np.float64]
    top_ids: NDArray[np.int32]
    top_logprobs: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a candidate expects of the same n positions.

    Attributes:
        loss: fp64 [n], as `Expectation.loss`.
        chosen: int32 [n], its most likely ids.
        divergence: fp64 [n], KL(reference || candidate) in nats over the reference's ``TOP`` ids
            and all others as one, which is at most that over every id.
    """

    loss: NDArray[np.float64]
    chosen: NDArray[np.int32]
    divergence: NDArray[np.float64]


def expect_text(model: Model, state: State, reading: Reading, on_passage: OnPassage) -> Expectation:
    """Score a text by a reference.

    Args:
        model: reads by prefill, as a prompt is read.
        state: overwritten; has room for a passage.
        reading: the text.
        on_passage: told after each passage; may raise to stop.

    Numerics:
        Logits as ``Model.logits`` gives them, fp32; log-softmax over ``num_ids`` in fp32.
    """
    losses: list[Any] = []
    top_ids: list[Any] = []
    top_logprobs: list[Any] = []
    for targets, logprobs in _scored(model, state, reading, on_passage):
        top = logprobs.topk(min(TOP, reading.num_ids), dim=1)
        losses.append(_loss(logprobs, targets))
        top_ids.append(top.indices.to("cpu", torch.int32).numpy())
        top_logprobs.append(top.values.cpu().numpy())
    return Expectation(
        np.concatenate(losses), np.concatenate(top_ids), np.concatenate(top_logprobs)
    )


def compare_text(
    model: Model,
    state: State,
    reading: Reading,
    expected: Expectation,
    on_passage: OnPassage,
) -> Comparison:
    """Score the same text by a candidate; arguments and numerics as in `expect_text`.

    Args:
        model: the candidate.
        state: of its own.
        reading: the same.
        expected: what the reference said of them.
        on_passage: told after each passage.
    """
    losses: list[Any] = []
    chosen: list[Any] = []
    divergences: list[Any] = []
    start = 0
    for targets, logprobs in _scored(model, state, reading, on_passage):
        rows = slice(start, start + len(targets))
        start = rows.stop
        losses.append(_loss(logprobs, targets))
        chosen.append(logprobs.argmax(dim=1).to("cpu", torch.int32).numpy())
        top_ids = torch.tensor(expected.top_ids[rows], dtype=torch.int64, device=logprobs.device)
        ours = logprobs.gather(1, top_ids).cpu().numpy()
        divergences.append(divergence(expected.top_logprobs[rows], ours))
    return Comparison(np.concatenate(losses), np.concatenate(chosen), np.concatenate(divergences))


def divergence(p: NDArray[np.float32], q: NDArray[np.float32]) -> NDArray[np.float64]:
    """KL(p || q) in nats, the ids that are not given taken as one.

    Args:
        p: fp32 [n, k], log probabilities of k ids.
        q: fp32 [n, k], those of another distribution for the same ids.

    Returns:
        fp64 [n], not below 0.
    """
    wide_p, wide_q = p.astype(np.float64), q.astype(np.float64)
    inside = (np.exp(wide_p) * (wide_p - wide_q)).sum(axis=1)
    # what rounding leaves of a full sum is nothing
    rest_p, rest_q = (np.maximum(1 - np.exp(one).sum(axis=1), 1e-12) for one in (wide_p, wide_q))
    return np.maximum(inside + rest_p * np.log(rest_p / rest_q), 0.0)


def _loss(logprobs: torch.Tensor, targets: torch.Tensor) -> NDArray[np.float64]:
    rows = logprobs.gather(1, targets[:, None]).squeeze(1)
    return (-rows).to("cpu", torch.float64).numpy()


@torch.inference_mode()
def _scored(
    model: Model, state: State, reading: Reading, on_passage: OnPassage
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Targets int64 [t] and log probabilities fp32 [t, num_ids].

    t is at most ``MAX_ROWS``, what the head computes at once: 32 MB of the 27B's logits.
    """
    num_scored = 0
    for one in reading.passages:
        state.clear()
        hidden = model.prefill(one.ids[:-1], state)[one.first - 1 :]
        targets = torch.tensor(one.ids[one.first :], dtype=torch.int64, device=hidden.device)
        for start in range(0, len(targets), MAX_ROWS):
            rows = slice(start, start + MAX_ROWS)
            logits = model.logits(hidden[rows])[:, : reading.num_ids]
            yield targets[rows], torch.log_softmax(logits, dim=1)
        num_scored += len(targets)
        on_passage(num_scored)
