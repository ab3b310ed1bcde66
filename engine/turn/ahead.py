"""Read what the next message of a conversation will stand behind, before there is one."""

import threading
from collections.abc import Generator, Sequence
from dataclasses import replace
from itertools import takewhile

from engine.errors import EngineError
from engine.turn.failures import mid_turn_failures, sentence_of
from engine.turn.machine import Machine, Reading
from engine.turn.memory import Memory
from engine.turn.prefill import read_prompt
from engine.types import Message, PromptProgressed, Request

PLACEHOLDERS = ("Go on.", "a", "1")
"""Messages that have nothing in common: what prompts with them begin with, all begin with."""


def next_requests(request: Request) -> list[Request]:
    """The request with one more message of the person, each time another one."""
    return [
        replace(request, messages=(*request.messages, Message("user", one))) for one in PLACEHOLDERS
    ]


def common_beginning(prompts: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """The ids that all prompts begin with."""
    columns = zip(*prompts, strict=False)
    return tuple(one for one, *_ in takewhile(lambda ids: len(set(ids)) == 1, columns))


def read_ahead(
    machine: Machine, memory: Memory, reading: Reading, stop: threading.Event
) -> Generator[PromptProgressed]:
    """Read ids into memory as a turn would, piece by piece, until ``stop`` is set.

    What was read stays read, whether it was all or not.

    Yields:
        What there is to read, at once, and progress after each piece.

    Raises:
        EngineError: the device or the model failed; the state is given up then.
    """
    num_held, num_total = len(memory.ids), len(reading.ids)
    try:
        if num_held < num_total:
            yield PromptProgressed(num_held, num_total, num_held, 0.0)
        yield from read_prompt(machine.model, memory, reading.ids, stop, reading.recorded)
    except GeneratorExit:
        raise  # closed between two pieces, where memory is whole
    except mid_turn_failures() as problem:
        memory.spoil()
        raise EngineError(
            sentence_of(problem), "The conversation is kept; the next message reads it again."
        ) from None
    except BaseException:
        memory.spoil()
        raise
