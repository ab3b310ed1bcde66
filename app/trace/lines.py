"""The lines of a recording, each an event; knows no file.

They are ``trace`` (the head of a run), ``turn``, ``chunk``, ``round``, ``notice``, ``text`` and
``end``. Seconds count from the turn's start, a turn's own from its run's. A round is a row under
the head's columns. Text and token ids are written only when they are asked for; ids are text to
whoever has the tokenizer.
"""

import json
from collections.abc import Mapping
from typing import Any

from app.sessions.turns import COLUMNS, drafts_of, row_of
from app.trace.traced import Fact, Head
from engine.records import RoundRecord, TurnRecord
from engine.types import Channel, PromptProgressed

FORMAT = 1
"""The newest make of recording that this program reads and writes."""

_END_FIELDS = (
    *("finish_reason", "prompt_tokens", "reused_tokens", "ttft_s", "total_s", "prefill_tok_s"),
    *("decode_tok_s", "seed", "error"),
)
"""Fields of a ``TurnRecord`` that its ``end`` line holds as they are."""

Line = Mapping[str, Any]

_encode = json.JSONEncoder(ensure_ascii=True, separators=(",", ":")).encode


def to_bytes(line: Line) -> bytes:
    """One line of the file; 4 us for a round."""
    return _encode(line).encode("ascii") + b"\n"


def head_line(head: Head) -> Line:
    """The head of a run."""
    return {
        "type": "trace", "format": FORMAT, "run": head.run, "at": head.at, "columns": COLUMNS,
        "facts": head.facts,
    }  # fmt: skip


def turn_line(start_s: float, at: str, request: Mapping[str, Fact], prompt: str) -> Line:
    """The beginning of a turn; ``prompt`` is empty when no text is kept."""
    line = {"type": "turn", "start_s": round(start_s, 6), "at": at, "request": request}
    return {**line, "prompt": prompt} if prompt else line


def chunk_line(event: PromptProgressed, start_s: float, end_s: float) -> Line:
    """A chunk of the prompt that was read."""
    return {
        "type": "chunk", "start_s": round(start_s, 6), "end_s": round(end_s, 6),
        "num_tokens": event.num_tokens, "num_total": event.num_total,
        "num_reused": event.num_reused,
    }  # fmt: skip


def round_line(record: RoundRecord) -> Line:
    """A round."""
    return {"type": "round", "row": row_of(record)}


def notice_line(at_s: float, text: str) -> Line:
    """A notice of the engine."""
    return {"type": "notice", "at_s": round(at_s, 6), "text": text}


def text_line(at_s: float, channel: Channel, text: str) -> Line:
    """Text of the answer."""
    return {"type": "text", "at_s": round(at_s, 6), "channel": channel, "text": text}


def end_line(record: TurnRecord, *, keep_text: bool) -> Line:
    """The end of a turn."""
    line: dict[str, Any] = {"type": "end", "num_tokens": len(record.token_ids)}
    line |= {name: getattr(record, name) for name in _END_FIELDS}
    for name in ("ttft_s", "total_s", "prefill_tok_s", "decode_tok_s"):
        line[name] = round(line[name], 6)
    if keep_text:
        line |= {"text": record.text, "reasoning": record.reasoning, "ids": record.token_ids}
        line |= {"chars": record.token_chars, "drafts": drafts_of(record.rounds)}
    return line
