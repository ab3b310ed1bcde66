"""Turn records as compact JSON: rounds are rows under one header, times are rounded.

The text of a turn is not in here; it stands in the message. Knows no file.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, cast

from engine.records import BYTE_PARTS, PHASES, RangeRecord, RoundRecord, TurnRecord

COLUMNS = (
    *("drafter", "shape", "rows", "tested", "accepted", "num_tokens", "context", "start_s"),
    *(f"{name}_ms" for name in PHASES),
    *(f"{name}_bytes" for name in BYTE_PARTS),
)
"""What a round's row holds; its token ids are the next ``num_tokens`` of the turn's."""


def pack(record: TurnRecord, ids_before: Sequence[int] = ()) -> dict[str, Any]:
    """The record without its texts, as plain JSON values.

    A prompt repeats the conversation before it: it is kept as how much it has in common with
    ``ids_before``, the ids of that conversation, and the rest.
    """
    data = asdict(replace(record, logits=None, rounds=()))
    for name in ("text", "reasoning", "logits", "rounds"):
        del data[name]
    for name in ("ttft_s", "total_s", "prefill_tok_s", "decode_tok_s"):
        data[name] = round(data[name], 6)
    num_common = _num_common(ids_before, record.prompt_ids)
    data["prompt_ids"] = {"before": num_common, "more": record.prompt_ids[num_common:]}
    data["rounds"] = {"columns": COLUMNS, "rows": [row_of(one) for one in record.rounds]}
    data["drafts"] = drafts_of(record.rounds)
    return data


def unpack(
    data: Mapping[str, Any], text: str, reasoning: str, ids_before: Sequence[int] = ()
) -> TurnRecord | None:
    """The record behind ``pack``'s values, or None when they are damaged or of another make.

    Where the ids before it are not those it was packed with, it has no ids of its prompt.
    """
    try:
        fields = dict(data)
        ids = tuple(cast("list[int]", fields.pop("token_ids")))
        table = fields.pop("rounds")
        ranges = tuple(RangeRecord(**one) for one in fields.pop("ranges"))
        rounds = rounds_of(table["columns"], table["rows"], ids)
        prompt = fields.pop("prompt_ids", {"before": 0, "more": ()})
        prompt_ids = (*ids_before[: prompt["before"]], *prompt["more"])
        if len(prompt_ids) != fields["prompt_tokens"]:
            prompt_ids = ()
        rounds = with_drafts(rounds, fields.pop("drafts", ()))
        fields["token_chars"] = tuple(cast("list[int]", fields.get("token_chars", ())))
        return TurnRecord(
            text=text, reasoning=reasoning, token_ids=ids, rounds=rounds, ranges=ranges,
            prompt_ids=prompt_ids, **fields,
        )  # fmt: skip
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


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
    """The rounds behind ``row_of``'s rows; ``ids`` are the turn's tokens."""
    rounds: list[RoundRecord] = []
    # The rounds commit the turn's last tokens: a first token out of the prefill has no round.
    begin = len(ids) - sum(row[list(columns).index("num_tokens")] for row in rows)
    for index, row in enumerate(rows):
        value = dict(zip(columns, row, strict=True))
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


def _num_common(before: Sequence[int], ids: Sequence[int]) -> int:
    """Length of the common beginning."""
    pairs = enumerate(zip(before, ids, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(before), len(ids)))


def drafts_of(rounds: Sequence[RoundRecord]) -> list[list[tuple[int, ...]]]:
    """What was proposed, round by round: its ids, and of a tree the rows they follow."""
    return [
        [one.draft_ids, one.draft_parents] if one.draft_parents else [one.draft_ids]
        for one in rounds
    ]


def with_drafts(
    rounds: tuple[RoundRecord, ...], drafts: Sequence[Sequence[Sequence[int]]]
) -> tuple[RoundRecord, ...]:
    """The rounds with ``drafts_of``'s values; unchanged where those are of other rounds."""
    if len(drafts) != len(rounds):
        return rounds
    ids = [tuple(int(one) for one in draft[0]) for draft in drafts]
    parents = [tuple(int(one) for one in draft[1]) if draft[1:] else () for draft in drafts]
    return tuple(
        replace(one, draft_ids=proposed, draft_parents=follows)
        for one, proposed, follows in zip(rounds, ids, parents, strict=True)
    )
