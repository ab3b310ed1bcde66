"""How a prompt is read: what memory keeps of it, and what is computed again, how, and why."""

from collections.abc import Sequence
from dataclasses import dataclass

from engine.errors import MemoryPlanError
from engine.model.decoder import Model
from engine.records import RangeRecord
from engine.turn.machine import Reading
from engine.turn.memory import Kept, Memory
from engine.turn.prefill import agrees
from engine.types import Message, Request
from kernels.common.failures import failures

FEW_TOKENS = 256
"""Fewer are read again within one chunk, and nobody waits for them."""


@dataclass(frozen=True, slots=True)
class Past:
    """A conversation up to its last recorded answer.

    Attributes:
        messages: up to that answer, itself among them.
        prompt_ids: what was read before it.
        token_ids: of the answer.
        ranges: how all of it was computed, without gaps from the first token on.
        arithmetic: with which its bits were computed, and over whose weights.
    """

    messages: tuple[Message, ...]
    prompt_ids: tuple[int, ...]
    token_ids: tuple[int, ...]
    ranges: tuple[RangeRecord, ...]
    arithmetic: str

    def ranges_of(self, ids: Sequence[int]) -> tuple[RangeRecord, ...]:
        """The ranges that a prompt begins with, as far as its ids are those of the record."""
        every = (*self.prompt_ids, *self.token_ids)
        kept: list[RangeRecord] = []
        for one in self.ranges:
            if one.end > len(every) or tuple(ids[: one.end]) != every[: one.end]:
                break
            kept.append(one)
        return tuple(kept)

    def num_recorded(self, ids: Sequence[int]) -> int:
        """Tokens of a prompt that those ranges cover."""
        ranges = self.ranges_of(ids)
        return ranges[-1].end if ranges else 0


def past_of(request: Request, model: Model) -> Past | None:
    """How the conversation of a request was computed, as far as it is to be computed so again.

    None where a fast resume is asked for, nothing is known of it, or this model could not have
    computed it so: a session's file may come from another model, or be damaged.
    """
    past = _last_read(request) if request.exact_resume else None
    if past is None or max(*past.prompt_ids, *past.token_ids) >= model.config.vocab_size:
        return None
    sizes = {one.chunk_tokens for one in past.ranges if one.how == "prefill"}
    return past if all(map(model.reads_chunks_of, sizes)) else None


def _last_read(request: Request) -> Past | None:
    """What the messages of a request say of how they were computed; None where they say nothing."""
    for at in range(len(request.messages) - 1, -1, -1):
        record = request.messages[at].record
        if record is not None and record.prompt_ids and record.token_ids:
            return Past(
                request.messages[: at + 1], record.prompt_ids, record.token_ids, record.ranges,
                record.arithmetic,
            )  # fmt: skip
    return None


def read_how(
    memory: Memory,
    ids: tuple[int, ...],
    past: Past | None,
    arithmetic: str,
    *,
    goes_on: bool,
    is_new: bool,
) -> tuple[Reading, str]:
    """Let memory keep what it can of a prompt, and say how the rest is read.

    Args:
        memory: of the conversation that was held; then holds a beginning of ``ids``.
        ids: the whole prompt.
        past: how its conversation was computed once, where that is known.
        arithmetic: of this engine, and its weights.
        goes_on: the prompt is the conversation that was held, and more.
        is_new: no answer stands in the prompt, so that nobody waits for what was said before.

    Returns:
        How to read, and what a person should know of it; mostly empty.

    Raises:
        MemoryPlanError: there is no memory to come back to.
    """
    ranges = past.ranges_of(ids) if past is not None else ()
    is_ours = past is not None and past.arithmetic == arithmetic
    try:
        kept = memory.align(ids)
        num_recorded = ranges[-1].end if ranges else 0
        must_repeat = is_ours and kept.reused < num_recorded
        if must_repeat and not agrees(ranges, memory.ranges):
            memory.forget()
    except failures() as problem:
        raise MemoryPlanError(
            f"There is no memory for a conversation: {problem}.", "Close other programs."
        ) from None
    num_kept = len(memory.ids)
    num_known = max(kept.held if goes_on else kept.common, num_recorded)
    num_reread = max(0, num_known - num_kept)
    if must_repeat:
        return Reading(ids, ranges, num_reread), _repeated(ranges, num_kept)
    told = _read_again(kept, num_reread, len(ids), goes_on=goes_on, is_new=is_new)
    if num_recorded > num_kept and not is_ours:
        told = (
            f"The conversation is read again, {num_reread:,} tokens: it was computed with another "
            "arithmetic or other weights, so that its bits may differ from then on."
        )
    return Reading(ids, (), num_reread), told


def _repeated(ranges: Sequence[RangeRecord], num_kept: int) -> str:
    """What to say of a record that is computed again; nothing for few tokens."""
    if num_kept and ranges[-1].end - num_kept < FEW_TOKENS:
        return ""
    by_how = dict.fromkeys(("prefill", "decode"), 0)
    for one in ranges:
        by_how[one.how] += max(0, one.end - max(one.start, num_kept))
    return (
        f"The conversation is read again exactly as it was computed: {by_how['prefill']:,} tokens "
        f"in chunks, {by_how['decode']:,} as they were decoded (chat.resume 'fast' takes less "
        "time)."
    )


def _read_again(kept: Kept, num_reread: int, num_ids: int, *, goes_on: bool, is_new: bool) -> str:
    """What to say when tokens are read again; nothing for few of an edited text."""
    if goes_on and num_reread:
        return (
            f"The template writes earlier messages in another way now: {num_reread:,} tokens are "
            "read again."
        )
    if kept.held and not kept.reused and not is_new:
        return (
            "The conversation does not go on from the one that is held: "
            f"all {num_ids:,} tokens are read again."
        )
    if num_reread >= FEW_TOKENS:
        return (
            f"{num_reread:,} tokens are read again: no point to come back to lies closer "
            "(model.snapshot_mb)."
        )
    return ""
