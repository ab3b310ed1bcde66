"""The machinery of settings: declaration, parsing, and which source won.

A setting is a field of a frozen section dataclass, made by ``setting(...)``. The registry refuses
a second declaration of a name, an unknown name and an unreadable value, each with a sentence.
"""

import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from engine.errors import SettingsError, did_you_mean
from engine.settings.environment import PREFIX
from engine.settings.numbers import real_number, whole_number

When = Literal["start", "session", "live"]

ALL_SETTINGS = "'qwen38 settings' lists all."


def setting(
    default: object,
    help: str,  # noqa: A002  (the field's own name in every option parser)
    *,
    unit: str = "",
    choices: tuple[str, ...] = (),
    bounds: tuple[float, float] | None = None,
    when: When = "start",
    computes: bool = False,
    check: Callable[[Any], object] | None = None,
) -> Any:  # noqa: ANN401  (the type of a setting stands in its annotation)
    """Declare a setting as a dataclass field.

    Args:
        default: value when nobody says otherwise.
        help: what it does, for a person, in one line.
        unit: unit of a number.
        choices: the words that are allowed.
        bounds: inclusive limits of a number.
        when: whether a change takes effect at the next start, session or at once.
        computes: it says which weights are read or how the model computes over them, so that
            ``qwen38 quality`` can compare two values of it.
        check: raises `SettingsError` for a value that means nothing.
    """
    about = {"help": help, "unit": unit, "choices": choices, "bounds": bounds}
    about |= {"when": when, "computes": computes, "check": check}
    return field(default=default, metadata=about)


@dataclass(frozen=True, slots=True)
class Setting:
    """One declared setting, flattened."""

    name: str
    type: Any
    default: object
    help: str
    unit: str
    choices: tuple[str, ...]
    bounds: tuple[float, float] | None
    env: str
    when: When
    computes: bool
    check: Callable[[Any], object] | None


@dataclass(frozen=True, slots=True)
class Resolved:
    """A value and where it came from: ``default``, or the name of the layer that won."""

    value: object
    source: str


def declared_settings(root: type) -> dict[str, Setting]:
    """Flatten the sections of ``root`` into settings by full name, ``section.name``.

    Raises:
        SettingsError: a field is not made by `setting`, or two have one name or one variable.
    """
    found: dict[str, Setting] = {}
    variables: set[str] = set()
    for section, section_type in typing.get_type_hints(root).items():
        hints = typing.get_type_hints(section_type)
        for declared in fields(section_type):
            one = _flatten(section, declared, hints[declared.name])
            if one.name in found or one.env in variables:
                raise SettingsError(f"The setting '{one.name}' ({one.env}) is declared twice.")
            found[one.name] = one
            variables.add(one.env)
    return found


def _flatten(section: str, declared: "Field[Any]", hint: object) -> Setting:
    about = declared.metadata
    if declared.default is MISSING or "help" not in about:
        raise SettingsError(f"The field '{section}.{declared.name}' is not made by setting().")
    name = f"{section}.{declared.name}"
    return Setting(
        name=name,
        type=hint,
        default=declared.default,
        help=about["help"],
        unit=about["unit"],
        choices=about["choices"],
        bounds=about["bounds"],
        env=PREFIX + name.replace(".", "_").upper(),
        when=about["when"],
        computes=about["computes"],
        check=about["check"],
    )


def parse(one: Setting, raw: object, source: str) -> object:
    """Turn ``raw`` (text, or a TOML value) into the setting's type.

    Raises:
        SettingsError: the value does not read, is not among the choices or is out of bounds; the
            sentence names source, setting, value and what was expected.
    """
    value = _convert(one, raw, source)
    if one.choices and value is not None and value not in one.choices:
        hint = did_you_mean(str(value), one.choices)
        allowed = ", ".join(one.choices)
        raise SettingsError(
            f"{source}: '{one.name}' is '{value}', expected one of {allowed}.", hint
        )
    if one.bounds and isinstance(value, int | float):
        low, high = one.bounds
        if not low <= value <= high:
            wanted = f"{plain_number(low)} to {plain_number(high)} {one.unit}".rstrip()
            raise SettingsError(f"{source}: '{one.name}' is {_shown(raw)}, expected {wanted}.")
    if one.check is not None:
        try:
            one.check(value)
        except SettingsError as problem:
            raise SettingsError(f"{source}: {problem.message}", problem.mend) from None
    return value


def _convert(one: Setting, raw: object, source: str) -> object:
    kind, optional = _unwrap(one.type)
    if optional and (raw is None or raw == ""):
        return None
    try:
        return _READERS[kind](raw)
    except (KeyError, TypeError, ValueError, RuntimeError):
        wanted = _WORDS.get(kind, str(kind))
        raise SettingsError(
            f"{source}: '{one.name}' is '{_shown(raw)}', expected {wanted}.",
            f"See 'qwen38 settings' for {one.name}.",
        ) from None


def plain_number(bound: float) -> str:
    """A bound with all its digits."""
    return f"{int(bound):,}" if bound == int(bound) else f"{bound:g}"


def _shown(raw: object) -> str:
    """A refused value, short enough for a sentence."""
    try:
        text = str(raw)
    except (ValueError, RecursionError):  # thousands of digits, or as many brackets
        return "too long to show"
    return text if len(text) <= 200 else f"{text[:200]}…"


def _unwrap(hint: Any) -> tuple[Any, bool]:  # noqa: ANN401
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        kinds = [kind for kind in typing.get_args(hint) if kind is not type(None)]
        return kinds[0], True
    return hint, False


def _read_bool(raw: object) -> bool:
    if isinstance(raw, bool):
        return raw
    return _BOOLEANS[str(raw).strip().lower()]


def _read_int(raw: object) -> int:
    if isinstance(raw, bool):
        raise ValueError(raw)
    return whole_number(str(raw))


def _read_text(raw: object) -> str:
    """A text; one with bytes that are no UTF-8 would end where it is encoded again."""
    text = str(raw)
    text.encode()
    return text


def _read_path(raw: object) -> Path:
    if "\0" in str(raw):
        raise ValueError(raw)
    return Path(str(raw)).expanduser()


_BOOLEANS = {
    "1": True, "true": True, "yes": True, "on": True,
    "0": False, "false": False, "no": False, "off": False,
}  # fmt: skip
_READERS: dict[Any, Callable[[object], object]] = {
    bool: _read_bool,
    int: _read_int,
    float: lambda raw: real_number(str(raw)),
    str: _read_text,
    Path: _read_path,
}
_WORDS: dict[Any, str] = {
    bool: "on or off",
    int: "a whole number",
    float: "a number",
    str: "text in UTF-8",
    Path: "a path",
}


def resolve(
    known: Mapping[str, Setting], layers: list[tuple[str, Mapping[str, object]]]
) -> dict[str, Resolved]:
    """Merge ``layers`` (source, values by setting name), weakest first, over the defaults.

    Raises:
        SettingsError: a name is unknown (the nearest one is named) or a value does not read.
    """
    merged = {name: Resolved(one.default, "default") for name, one in known.items()}
    for source, values in layers:
        for name, raw in values.items():
            if name not in known:
                hint = did_you_mean(name, known) or ALL_SETTINGS
                raise SettingsError(f"{source}: there is no setting '{name}'.", hint)
            merged[name] = Resolved(parse(known[name], raw, source), source)
    return merged


def names_from_environment(
    known: Mapping[str, Setting], variables: Mapping[str, str]
) -> dict[str, object]:
    """Map ``QWEN38_...`` variables to setting names.

    Raises:
        SettingsError: a variable belongs to no setting.
    """
    by_variable = {one.env: name for name, one in known.items()}
    for variable in variables:
        if variable not in by_variable:
            raise SettingsError(
                f"environment: there is no setting behind {variable}.",
                did_you_mean(variable, by_variable) or ALL_SETTINGS,
            )
    return {by_variable[variable]: value for variable, value in variables.items()}
