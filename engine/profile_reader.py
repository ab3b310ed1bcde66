"""Typed access to the TOML file of a profile; every refusal names the file and the key."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

from engine.errors import ProfileError, did_you_mean, nearest


@dataclass(frozen=True, slots=True)
class ProfileReader:
    """Reads keys of tables that were parsed from ``path``; raises `ProfileError`."""

    path: Path

    def error(self, key: str, value: object, wanted: str, hint: str = "") -> ProfileError:
        """What is wrong with a key: the value, and what was expected."""
        given = "missing" if value is None else repr(value)
        return ProfileError(f"{self.path}: '{key}' is {given}, expected {wanted}.", hint)

    def only(self, table: Mapping[str, Any], known: set[str], where: str) -> None:
        """Refuse keys that are not known; ``where`` is the table, with a dot behind it.

        Raises:
            ProfileError: there is one.
        """
        for key in table:
            if key not in known:
                raise ProfileError(
                    f"{self.path}: there is no key '{where}{key}'.", nearest(key, known)
                )

    def table(
        self, data: Mapping[str, Any], key: str, *, optional: bool = False, where: str = ""
    ) -> dict[str, Any]:
        """A table; an optional one that is missing is empty."""
        value = data.get(key, {} if optional else None)
        if not isinstance(value, dict):
            raise self.error(where + key, value, f"a table [{where}{key}]")
        return cast("dict[str, Any]", value)

    def text(self, data: Mapping[str, Any], key: str, where: str = "") -> str:
        """A text that is not empty."""
        value = data.get(key)
        if not isinstance(value, str) or not value:
            raise self.error(where + key, value, "text")
        return value

    def texts(self, data: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
        """Texts; none where the key is missing."""
        value = data.get(key, [])
        items = cast("list[object]", value) if isinstance(value, list) else [None]
        if not all(isinstance(one, str) for one in items):
            raise self.error(where + key, data.get(key), "a list of texts")
        return tuple(str(one) for one in items)

    def rising(
        self, data: Mapping[str, Any], key: str, allowed: Sequence[int], where: str
    ) -> tuple[int, ...]:
        """Whole numbers among some, each once and rising."""
        value: object = data[key]
        if not isinstance(value, list):
            raise self.error(where + key, value, "a list of rising numbers")
        items = cast("list[object]", value)
        for one in items:
            if type(one) is not int or one not in allowed:
                few = f"{', '.join(map(str, allowed[:2]))} ... {allowed[-1]}"
                near = min(allowed, key=lambda it: abs(it - one)) if type(one) is int else None
                hint = "" if near is None else f"Did you mean {near}?"
                raise self.error(where + key, items, f"a list of numbers among {few}", hint)
        numbers = cast("list[int]", items)
        if any(one >= other for one, other in pairwise(numbers)):
            raise self.error(where + key, numbers, "a list of rising numbers")
        return tuple(numbers)

    def word(self, data: Mapping[str, Any], key: str, allowed: tuple[str, ...], where: str) -> str:
        """One of a few words."""
        value = data.get(key)
        if value not in allowed:
            wanted = f"one of {', '.join(allowed)}"
            raise self.error(where + key, value, wanted, did_you_mean(str(value), allowed))
        return str(value)
