"""The settings of a run: each from the source that wins, assembled to what the program reads."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast, get_type_hints

from engine.settings import environment
from engine.settings.declared import KNOWN, Settings
from engine.settings.registry import Resolved, names_from_environment, parse, resolve
from engine.settings.user_file import read_user_file


def load_settings(
    command_line: Mapping[str, object] | None = None,
    profile: Mapping[str, object] | None = None,
) -> tuple[Settings, dict[str, Resolved]]:
    """Resolve every setting from its sources.

    Args:
        command_line: values by full name, as the commands' options gave them.
        profile: values by full name that the chosen profile declares.

    Returns:
        The settings, and for each full name the value with the source that won.

    Raises:
        SettingsError: an unknown name or an unreadable value in any source.
    """
    variables = names_from_environment(KNOWN, environment.own_variables())
    overrides = command_line or {}
    folder = _config_dir(overrides, variables)
    resolved = resolve(
        KNOWN,
        [
            ("profile", profile or {}),
            (f"user file {folder / 'settings.toml'}", read_user_file(folder / "settings.toml")),
            ("environment", variables),
            ("command line", overrides),
        ],
    )
    return build(resolved), resolved


def build(resolved: Mapping[str, Resolved]) -> Settings:
    """Assemble the typed settings from resolved values."""
    by_section: dict[str, dict[str, object]] = {}
    for name, one in resolved.items():
        section, leaf = name.split(".", 1)
        by_section.setdefault(section, {})[leaf] = one.value
    sections: dict[str, Any] = get_type_hints(Settings)
    return Settings(**{name: kind(**by_section[name]) for name, kind in sections.items()})


def _config_dir(overrides: Mapping[str, object], variables: Mapping[str, object]) -> Path:
    for source, values in (("command line", overrides), ("environment", variables)):
        if chosen := values.get("paths.config"):
            return cast("Path", parse(KNOWN["paths.config"], chosen, source))
    return Settings().config_dir
