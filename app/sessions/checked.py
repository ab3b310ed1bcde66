"""Values from a file that anybody may have changed: each is looked at before it counts."""

from collections.abc import Mapping, Sequence
from typing import Any, cast, get_args

from engine.records import RangeRecord, ReadHow

DAMAGED = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError)
"""What a value raises that is not what a reader takes it for."""

MAX_NUMBER = 10**15
"""No time, rate or byte count is larger."""

MAX_ROUND_TOKENS, MAX_TURN_TOKENS = 1024, 10_000_000
"""More than that no engine commits: a file that says so is damaged or means harm."""

MAX_ID = 2**31 - 1
"""No vocabulary has a larger id."""

MAX_CHUNK_TOKENS = 1 << 16
"""No prompt is read in larger pieces."""

Values = Mapping[str, Any]


def number(values: Values, name: str) -> float:
    """A number from 0 to `MAX_NUMBER`; raises one of `DAMAGED`, as all of these do."""
    value = values[name]
    if type(value) not in (int, float) or not 0 <= value <= MAX_NUMBER:  # false for NaN as well
        raise ValueError(name)
    return float(value)


def count(values: Values, name: str, most: int = MAX_NUMBER) -> int:
    """A whole number from 0 to ``most``."""
    value = values[name]
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError(name)
    return value


def text(values: Values, name: str) -> str:
    """A text."""
    value = values[name]
    if not isinstance(value, str):
        raise TypeError(name)
    return value


def counts(found: object, most: int = MAX_ID) -> tuple[int, ...]:
    """A list of whole numbers from 0 to ``most``, such as token ids."""
    if not isinstance(found, list | tuple):
        raise TypeError(found)
    numbers = cast("Sequence[Any]", found)
    if not all(type(one) is int and 0 <= one <= most for one in numbers):
        raise ValueError("a number is none, or out of bounds")
    return tuple(numbers)


def ranges(found: Sequence[Values]) -> tuple[RangeRecord, ...]:
    """How a conversation was computed, from its first token on and without gaps."""
    read: list[RangeRecord] = []
    end = 0
    for one in found:
        how, chunk_tokens = text(one, "how"), count(one, "chunk_tokens", MAX_CHUNK_TOKENS)
        begin, end_before, end = count(one, "start"), end, count(one, "end", MAX_TURN_TOKENS)
        if how not in get_args(ReadHow):
            raise ValueError(how)
        if begin != end_before or end < begin or (how == "prefill" and not chunk_tokens):
            raise ValueError(one)
        read.append(RangeRecord(begin, end, cast("Any", how), chunk_tokens))
    return tuple(read)
