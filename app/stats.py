"""One line of figures for an answer, with the definitions of the design's section 6."""

from collections.abc import Sequence

from engine.records import TurnRecord
from engine.sizes import counted

ENDS = {
    "stop": "",
    "stop_string": "",
    "length": "cut at the longest answer allowed",
    "context_full": "the context is full",
    "cancelled": "stopped",
    "error": "failed",
}


def stats_line(record: TurnRecord) -> str:
    """Rate, accepted of tested drafts, time to first token, tokens, and an unusual end."""
    parts = [f"{record.decode_tok_s:.1f} tok/s"]
    tested = sum(one.tested for one in record.rounds)
    if tested:
        accepted = sum(one.accepted for one in record.rounds)
        num_tokens = sum(len(one.token_ids) for one in record.rounds)
        a_round = num_tokens / len(record.rounds)
        parts.append(f"{accepted}/{tested} drafts accepted, {a_round:.2f} tokens a round")
    parts.append(f"first token {record.ttft_s:.2f} s")
    count = len(record.token_ids)
    parts.append(counted(count, "token"))
    if end := ENDS.get(record.finish_reason, record.finish_reason):
        parts.append(end)
    return f"[ {' · '.join(parts)} ]"


def first_difference(first: Sequence[int], second: Sequence[int]) -> int | None:
    """Where two lists of tokens differ first, also by one being longer; None for equal ones."""
    for index, (one, other) in enumerate(zip(first, second, strict=False)):
        if one != other:
            return index
    return None if len(first) == len(second) else min(len(first), len(second))
