"""Time rounds that the checkpoint's own MTP head drafts, as turns run them.

The head of a random model guesses no better than chance: a round commits one token at the price of
its draft and its rows. What is timed is proven: whatever was proposed, the target must choose what
plain decode chose.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from engine.bench.launches import Kernels, watch_kernels
from engine.bench.model import any_ids
from engine.bench.replay import disagreement, go_on
from engine.draft.draft import Draft
from engine.model.decoder import Model
from engine.records import PHASES
from engine.turn.choice import TokenChooser
from engine.turn.memory import Memory
from engine.turn.rounds import Rounds
from engine.turn.verify import Course, Verifier
from engine.types import Sampling

NUM_STEPS = 3
"""Tokens that the head proposes a round: its usual chain."""

NUM_WARM_UP = 4
"""Rounds before the timed ones: graphs are captured for the chain and for the rows to catch up."""


@dataclass(frozen=True, slots=True)
class DraftTiming:
    """Rounds with drafts of the MTP head: medians over the repetitions.

    ``steps`` are passes through the head a round, ``step_ms`` the phase ``draft`` over them: the
    head catching up with the last round's rows, its chain, and its ids on the host. ``tokens`` are
    committed a round. ``kernels`` are those of one draft, without what the host needs between
    them; None where nobody looked, or could.
    """

    rows: int
    steps: int
    round_ms: float
    ms: dict[str, float]
    step_ms: float
    tokens: float
    kernels: Kernels | None


def tokens_for(num_rounds: int, num_steps: int = NUM_STEPS) -> int:
    """Tokens of plain decode that so many drafted rounds are held against.

    Guesses that are right use more of them in the first rounds, and leave fewer rounds to time.
    """
    return (num_steps + 1) * (NUM_WARM_UP + 2) + num_rounds


def time_drafts(
    model: Model,
    verifier: Verifier,
    context_tokens: int,
    truth: Sequence[int],
    num_rounds: int,
    num_steps: int = NUM_STEPS,
    *,
    watches: bool = False,
) -> DraftTiming | None:
    """Time rounds behind a context.

    Args:
        model: reads the context, `any_ids`.
        verifier: of the model.
        context_tokens: tokens before the rounds.
        truth: token 0 and what plain decode chose behind it, `tokens_for` as many rounds.
        num_rounds: rounds that are timed; fewer where ``truth`` ends before.
        num_steps: tokens that the head proposes a round.
        watches: look at a draft's kernels when all is timed; a profiler leaves its traces.

    Returns:
        The medians; None where the model has no head.

    Raises:
        KernelError: a round chose other tokens than plain decode.
    """
    if model.mtp is None:
        return None
    memory = Memory(model, context_tokens + len(truth) + num_steps + 1, most_marks=0)
    ids = any_ids(model.config, context_tokens)
    memory.read(ids, model.prefill(ids, memory.state), "prefill", model.chunk_tokens)
    chooser = TokenChooser(Sampling(temperature=0.0), model.config.vocab_size, ())
    rounds = Rounds(verifier, Course(memory.state, chooser), model.device)
    chosen, timed, committed = [truth[0]], list[dict[str, float]](), list[int]()
    room = len(truth) - num_steps - 1  # what a round may choose is known behind so many

    def launch() -> None:
        draft = partial(_propose, memory, chosen[-1], num_steps)
        hidden = rounds.launch(chosen[-1], draft, num_steps + 1)
        if hidden is not None:
            memory.expect(hidden)

    launch()
    while rounds.are_under_way:
        one = rounds.take(go_on)
        memory.read([chosen[-1], *one.verified.chosen[:-1]], one.verified.hidden, "decode")
        chosen += one.verified.chosen
        committed.append(len(one.verified.chosen))
        if len(chosen) <= room and len(committed) < NUM_WARM_UP + num_rounds:
            launch()
        timed.append(one.clock.ms())
        if chosen != list(truth[: len(chosen)]):
            rounds.drop()
            first = len(chosen) - len(one.verified.chosen)
            right = truth[first : len(chosen)]
            raise disagreement("A drafted round", one.verified.chosen, right)
    again = partial(_propose, memory, chosen[-1], num_steps)
    kernels = watch_kernels(again, model.device.type) if watches else None
    return _medians(timed[NUM_WARM_UP:], committed[NUM_WARM_UP:], num_steps, kernels)


def _medians(
    timed: Sequence[dict[str, float]],
    committed: Sequence[int],
    num_steps: int,
    kernels: Kernels | None,
) -> DraftTiming:
    ms = {name: statistics.median(one[name] for one in timed) for name in PHASES}
    return DraftTiming(
        rows=num_steps + 1,
        steps=num_steps,
        round_ms=statistics.median(sum(one.values()) for one in timed),
        ms=ms,
        step_ms=ms["draft"] / num_steps,
        tokens=statistics.mean(committed),
        kernels=kernels,
    )


def _propose(memory: Memory, token_id: int, num_steps: int) -> Draft:
    assert memory.mtp is not None
    return Draft.chain(memory.mtp.draft(token_id, num_steps))
