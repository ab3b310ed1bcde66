"""Rounds and turns with known figures."""

from engine.records import RoundRecord, TurnRecord

BYTES = {"weights": 900_000, "head": 50_000, "state": 30_000, "kv": 15_000, "drafter": 5_000}


def a_round(index=0, accepted=2, tested=3, start_s=None, ids=None, draft=(), parents=(), **fields):
    ms = {"draft": 10.0, "verify": 76.0, "accept": 2.5, "host": 1.5}
    ids = tuple(range(accepted + 1)) if ids is None else ids
    start_s = 0.4 + index * 0.09 if start_s is None else start_s
    return RoundRecord(
        index, fields.pop("drafter", "mtp"), "tree" if parents else "chain", 4, tested, accepted,
        ids, 100 + index, start_s, fields.pop("ms", ms), dict(BYTES), draft, parents,
    )  # fmt: skip


def a_turn(rounds, text="", reasoning="", first=1, chars=()):
    ids = (7,) * first + tuple(one for each in rounds for one in each.token_ids)
    return TurnRecord(
        text, reasoning, ids, "stop", 100, 0, 0.4, 2.0, 1830.0, 33.0, tuple(rounds), (), 1,
        token_chars=tuple(chars),
    )  # fmt: skip
