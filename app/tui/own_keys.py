"""Keys of the person's own: ``keys.toml`` beside the settings, a command line behind each key.

They stand beside the chat's own keys and take none of them, so that every hint stays true.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from app.slash import parse_slash
from app.tui.composer import NEWLINE_KEYS
from app.tui.keymap import KEYS
from engine.errors import RequestError, SettingsError
from engine.settings.toml_file import read_toml

FILE_NAME = "keys.toml"

_NAMED = "up|down|left|right|home|end|insert|delete|pageup|pagedown|space"
_KEY = re.compile(rf"((?:(?:ctrl|alt|shift)\+)*)(f(?:[1-9]|1\d|2[0-4])|[a-z0-9]|{_NAMED})")

_TAKEN = {
    *(key for one in KEYS if one.where != "conversation" for key in one.keys.split(",")),
    *NEWLINE_KEYS,
    *("ctrl+d", "ctrl+up", "ctrl+down"),
}
"""What the chat understands wherever the focus is, and what the message box does."""


@dataclass(frozen=True, slots=True)
class OwnKey:
    """A key, by the name that the screen's library has for it, and the line that it runs."""

    key: str
    line: str


def read_own_keys(folder: Path) -> tuple[OwnKey, ...]:
    """Read the person's keys; a missing file holds none.

    Raises:
        SettingsError: the file does not read, a key is none that could be given, is taken or
            stands there twice, or its line is no command.
    """
    path = folder / FILE_NAME
    try:
        table = read_toml(path, SettingsError)
    except FileNotFoundError:
        return ()
    found: dict[str, tuple[str, OwnKey]] = {}
    for name, line in table.items():
        own = _own_key(path, name, line)
        before, _ = found.setdefault(own.key, (name, own))
        if before != name:
            raise SettingsError(
                f"{path}: '{name}' and '{before}' are one key.", "Take another for one of them."
            )
    return tuple(own for _, own in found.values())


def _own_key(path: Path, name: str, line: object) -> OwnKey:
    key = _known_key(name)
    if key is None:
        raise SettingsError(
            f"{path}: '{name}' is no key that can be given.",
            "Take a function key, or a letter, digit or arrow with ctrl or alt, such as 'alt+n'.",
        )
    if key in _TAKEN:
        raise SettingsError(
            f"{path}: '{name}' is a key of the chat.", "F1 lists those; take another."
        )
    if not isinstance(line, str):
        raise SettingsError(f"{path}: '{name}' is {line!r}.", 'Write a command, such as "/redo".')
    try:
        found = parse_slash(line)
    except RequestError as error:
        raise SettingsError(f"{path}: '{name}': {error.message}", error.mend) from None
    if found is None:
        raise SettingsError(
            f"{path}: '{name}' is '{line}', which is no command.", 'Begin with a slash: "/redo".'
        )
    return OwnKey(key, line)


def _known_key(name: str) -> str | None:
    """The key as the library names it; None for what types text or is no key."""
    match = _KEY.fullmatch(name.strip().lower())
    if match is None:
        return None
    modifiers = sorted(set(match[1].split("+")) - {""})
    is_function_key = re.fullmatch(r"f\d+", match[2]) is not None
    if not is_function_key and not {"ctrl", "alt"} & set(modifiers):
        return None
    return "+".join((*modifiers, match[2]))
