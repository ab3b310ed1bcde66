"""``qwen38 settings``: every setting, its value, where the value came from, what it does."""

import json
from collections.abc import Mapping
from typing import Any

from app.commands import options
from app.known_profiles import known_profiles
from app.live import full_name, limits_of, show_value
from app.paragraph import INDENT, paragraph
from app.report import OK
from app.streams import write_data, write_lines
from engine.profile import Profile as WeightProfile
from engine.settings.declared import KNOWN
from engine.settings.load import load_settings
from engine.settings.registry import Resolved, Setting


def settings(
    name: options.SettingName = None,
    *,
    profile: options.Profile = None,
    as_json: options.Json = False,
) -> int:
    """Show the settings and where they came from.

    Each with its value, default, environment name, and what the profiles say.
    """
    given: dict[str, object] = {} if profile is None else {"model.profile": profile}
    now, sources = load_settings(given)
    profiles = known_profiles(now, profile)
    if chosen := profiles.get(now.model.profile or ""):
        now, sources = load_settings(given, chosen.settings)
    wanted = _wanted(name) if name is not None else list(KNOWN)
    if as_json:
        table = {one: _as_json(KNOWN[one], sources[one], profiles) for one in wanted}
        write_data(json.dumps(table, default=str) + "\n")
        return OK
    lines = [line for one in wanted for line in _lines(KNOWN[one], sources[one], profiles)]
    if name is None:
        path = now.config_dir / "settings.toml"
        lines += ["", "Weakest first: default, profile, user file, environment, command line."]
        lines += [f"The user file is {path}{'' if path.exists() else ' (none yet)'}."]
    write_lines(lines)
    return OK


def _wanted(name: str) -> list[str]:
    """A setting, or all of a section; raises ``SettingsError`` for neither."""
    section = [one for one in KNOWN if one.startswith(f"{name.strip().lower()}.")]
    return section or [full_name(name)]


def _lines(one: Setting, found: Resolved, profiles: Mapping[str, WeightProfile]) -> list[str]:
    unit = f" {one.unit}" if one.unit else ""
    lines = [f"{one.name} = {show_value(found.value)}{unit}"]
    default = "" if found.source == "default" else f", default {show_value(one.default)}"
    lines += paragraph(one.help, INDENT)
    lines.append(f"    from {found.source}{default} · {one.env} · {_change(one)}")
    if limits := limits_of(one):
        lines.append(f"    {limits}")
    for name, value in _served(one, profiles).items():
        lines.append(f"    the profile {name} says {show_value(value)}")
    return lines


def _change(one: Setting) -> str:
    return {
        "start": "read at the start",
        "session": "for the next conversation",
        "live": "changes at once",
    }[one.when]


def _served(one: Setting, profiles: Mapping[str, WeightProfile]) -> dict[str, object]:
    return {
        name: profile.settings[one.name]
        for name, profile in profiles.items()
        if profile.settings and one.name in profile.settings
    }


def _as_json(
    one: Setting, found: Resolved, profiles: Mapping[str, WeightProfile]
) -> dict[str, Any]:
    return {
        "value": found.value,
        "source": found.source,
        "default": one.default,
        "env": one.env,
        "help": one.help,
        "unit": one.unit,
        "choices": one.choices,
        "bounds": one.bounds,
        "when": one.when,
        "profiles": _served(one, profiles),
    }
