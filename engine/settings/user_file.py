"""Read the person's own settings.toml."""

from pathlib import Path
from typing import cast

from engine.errors import SettingsError
from engine.settings.toml_file import read_toml


def read_user_file(path: Path) -> dict[str, object]:
    """Read ``settings.toml`` into values by full name; a missing file is empty.

    Raises:
        SettingsError: the file is not TOML, or a top-level key is not a section.
    """
    try:
        data = read_toml(path, SettingsError)
    except FileNotFoundError:
        return {}
    values: dict[str, object] = {}
    for section, content in data.items():
        if not isinstance(content, dict):
            raise SettingsError(
                f"{path}: '{section}' stands outside a section.", "Write [section] above it."
            )
        for leaf, value in cast("dict[str, object]", content).items():
            values[f"{section}.{leaf}"] = value
    return values
