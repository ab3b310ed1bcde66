"""Turn records as compact JSON: rounds are rows under one header, times are rounded.

The text of a turn is not in here; it stands in the message. Knows no file.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, get_args

from app.sessions.checked import (
    DAMAGED,
    MAX_NUMBER,
    MAX_ROUND_TOKENS,
    MAX_TURN_TOKENS,
    count,
    counts,
    number,
    ranges,
    text,
)
from engine.draft.ngrams import num_common
from engine.records import (
    BYTE_PARTS,
    PHASES,
    DraftShape,
    FinishReason,
    RoundRecord,
    TurnRecord,
)

COLUMNS = (
    *("drafter", "shape", "rows", "tested", "accepted", "num_tokens", "context", "start_s"),
    *(f"{name}_ms" for name in PHASES),
    *(f"{name}_bytes" for name in BYTE_PARTS),
)
"""What a round's row holds; its token ids are the next ``num_tokens`` of the turn's."""

_SMALL = {"rows", "tested", "accepted", "num_tokens"}

_TIMES = ("ttft_s", "total_s", "prefill_tok_s", "decode_tok_s")
"""Seconds of a turn, and its rates."""

MAX_SEED = 2**64


def pack(record: TurnRecord, ids_before: Sequence[int] = ()) -> dict[str, Any]:
    """The record without its texts, as plain JSON values.

    A prompt repeats the conversation before it: it is kept as how much it has in common with
    ``ids_before``, the ids of that conversation, and the rest.
    """
    data = asdict(replace(record, logits=None, rounds=()))
    for name in ("text", "reasoning", "logits", "rounds"):
        del data[name]
    for name in _TIMES:
        data[name] = round(data[name], 6)
    common = num_common(ids_before, record.prompt_ids)
    data["prompt_ids"] = {"before": common, "more": record.prompt_ids[common:]}
    data["rounds"] = {"columns": COLUMNS, "rows": [row_of(one) for one in record.rounds]}
    data["drafts"] = drafts_of(record.rounds)
    return data


def unpack(
    data: Mapping[str, Any], answer: str, reasoning: str, ids_before: Sequence[int] = ()
) -> TurnRecord | None:
    """The record behind ``pack``'s values, or None when they are damaged or of another make.

    Where the ids before it are not those it was packed with, it has no ids of its prompt.
    """
    try:
        return _unpack({**_LATER, **data}, answer, reasoning, ids_before)
    except DAMAGED:
        return None


_LATER: Mapping[str, Any] = {
    "prompt_ids": {"before": 0, "more": ()},
    "drafts": (),
    "token_chars": (),
    "error": "",
    "arithmetic": "",
    "reread_tokens": 0,
}
"""What earlier makes of this program did not write."""


def _unpack(
    data: Mapping[str, Any], answer: str, reasoning: str, ids_before: Sequence[int]
) -> TurnRecord:
    ids = counts(data["token_ids"])
    prompt, figures = data["prompt_ids"], figures_of(data)
    prompt_ids = (*ids_before[: count(prompt, "before")], *counts(prompt["more"]))
    rounds = rounds_of(data["rounds"]["columns"], data["rounds"]["rows"], ids)
    return TurnRecord(
        text=answer,
        reasoning=reasoning,
        token_ids=ids,
        rounds=with_drafts(rounds, data["drafts"]),
        ranges=ranges(data["ranges"]),
        prompt_ids=prompt_ids if len(prompt_ids) == figures["prompt_tokens"] else (),
        reread_tokens=count(data, "reread_tokens"),
        arithmetic=text(data, "arithmetic"),
        token_chars=counts(data["token_chars"]),
        **figures,
    )


def figures_of(data: Mapping[str, Any]) -> dict[str, Any]:
    """What sessions and traces both say of a turn; raises one of `DAMAGED` where no turn has it."""
    reason = data["finish_reason"]
    if reason not in get_args(FinishReason):
        raise ValueError(reason)
    return {
        "finish_reason": reason,
        "prompt_tokens": count(data, "prompt_tokens", MAX_TURN_TOKENS),
        "reused_tokens": count(data, "reused_tokens"),
        **{name: number(data, name) for name in _TIMES},
        "seed": count(data, "seed", MAX_SEED),
        "error": text(data, "error"),
    }


def row_of(one: RoundRecord) -> list[object]:
    """A round as a row of ``COLUMNS``; milliseconds to 0.1 us."""
    return [
        *(one.drafter, one.shape, one.rows, one.tested, one.accepted, len(one.token_ids)),
        *(one.context_tokens, round(one.start_s, 6)),
        *(round(one.ms.get(name, 0.0), 4) for name in PHASES),
        *(one.num_bytes.get(name, 0) for name in BYTE_PARTS),
    ]


def rounds_of(
    columns: Sequence[str], rows: Sequence[Sequence[Any]], ids: tuple[int, ...]
) -> tuple[RoundRecord, ...]:
    """The rounds behind ``row_of``'s rows; ``ids`` are the turn's tokens.

    Raises one of `DAMAGED` where a row holds what no round has.
    """
    rounds: list[RoundRecord] = []
    values = [row_values(columns, row) for row in rows]
    # The rounds commit the turn's last tokens: a first token out of the prefill has no round.
    begin = len(ids) - sum(value["num_tokens"] for value in values)
    for index, value in enumerate(values):
        end = begin + value["num_tokens"]
        rounds.append(
            RoundRecord(
                index=index,
                drafter=value["drafter"],
                shape=value["shape"],
                rows=value["rows"],
                tested=value["tested"],
                accepted=value["accepted"],
                token_ids=ids[max(begin, 0) : end],
                context_tokens=value["context"],
                start_s=value["start_s"],
                ms={name: value[f"{name}_ms"] for name in PHASES},
                num_bytes={name: value[f"{name}_bytes"] for name in BYTE_PARTS},
            )
        )
        begin = end
    return tuple(rounds)


def row_values(columns: Sequence[str], row: Sequence[Any]) -> dict[str, Any]:
    """A row by its columns; raises one of `DAMAGED` where it holds what no round has."""
    value = dict(zip(columns, row, strict=True))
    text(value, "drafter")
    if value["shape"] not in get_args(DraftShape):
        raise ValueError(row)
    for name in COLUMNS[2:]:
        if name.endswith(("_s", "_ms")):
            number(value, name)
        else:
            count(value, name, MAX_ROUND_TOKENS if name in _SMALL else MAX_NUMBER)
    return value


def drafts_of(rounds: Sequence[RoundRecord]) -> list[list[tuple[int, ...]]]:
    """What was proposed, round by round: its ids, and of a tree the rows they follow."""
    return [
        [one.draft_ids, one.draft_parents] if one.draft_parents else [one.draft_ids]
        for one in rounds
    ]


def with_drafts(
    rounds: tuple[RoundRecord, ...], drafts: Sequence[Sequence[Sequence[int]]]
) -> tuple[RoundRecord, ...]:
    """The rounds with ``drafts_of``'s values; unchanged where those are of other rounds.

    Raises one of `DAMAGED` where they hold what nobody drafts.
    """
    if len(drafts) != len(rounds):
        return rounds
    ids = [counts(draft[0]) for draft in drafts]
    parents = [counts(draft[1], MAX_ROUND_TOKENS) if draft[1:] else () for draft in drafts]
    return tuple(
        replace(one, draft_ids=proposed, draft_parents=follows)
        for one, proposed, follows in zip(rounds, ids, parents, strict=True)
    )
