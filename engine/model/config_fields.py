"""Typed access to the fields of a config that somebody else wrote."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from engine.errors import CheckpointError


@dataclass(frozen=True, slots=True)
class ConfigFields:
    """Typed access to the fields of one config.

    A field that is not what its reader gives raises `CheckpointError`, which names file, field and
    value.

    Attributes:
        path: of the file.
        data: its fields.
        mend: what a person should know who is refused.
    """

    path: Path
    data: Mapping[str, Any]
    mend: str

    def error(self, name: str, value: object, wanted: str) -> CheckpointError:
        """A refusal of a field's value."""
        return CheckpointError(
            f"{self.path}: '{name}' is {str(value)[:80]!r}, expected {wanted}.",
            self.mend,
        )

    def count(self, name: str, default: int | None = None, *, least: int = 1) -> int:
        """A whole number of at least ``least``; the default where it is missing."""
        value = self.data.get(name)
        value = default if value is None else value
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= 1 << 24:
            raise self.error(name, value, f"a whole number from {least} to {1 << 24}")
        return value

    def real(self, name: str, default: float, low: float, high: float) -> float:
        """A number within bounds; the default where it is missing."""
        value = self.data.get(name)
        value = default if value is None else value
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not low <= value <= high
        ):
            raise self.error(name, value, f"a number from {low:g} to {high:g}")
        return float(value)

    def flag(self, name: str, default: bool) -> bool:
        """True or false; the default where it is missing."""
        value = self.data.get(name)
        value = default if value is None else value
        if not isinstance(value, bool):
            raise self.error(name, value, "true or false")
        return value

    def only(self, name: str, allowed: tuple[object, ...]) -> None:
        """Refuse a value of an optional field that the forward pass does not compute."""
        value = self.data.get(name)
        if value is not None and value not in allowed:
            raise self.error(name, value, " or ".join(str(one) for one in allowed))

    def table(self, name: str) -> "ConfigFields":
        """The fields of an object; none where it is missing."""
        value = self.data.get(name)
        if value is not None and not isinstance(value, dict):
            raise self.error(name, value, "an object")
        return ConfigFields(self.path, cast("dict[str, Any]", value or {}), self.mend)

    def ids(self, name: str) -> tuple[int, ...]:
        """Token ids; a single one counts as a list, none as an empty one."""
        value = self.data.get(name)
        many = cast("list[Any]", value) if isinstance(value, list) else [value]
        many = [] if value is None else many
        for one in many:
            if isinstance(one, bool) or not isinstance(one, int) or not 0 <= one <= 1 << 24:
                raise self.error(name, many, "a token id or a list of token ids")
        return tuple(cast("list[int]", many))
