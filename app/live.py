"""Changing a setting while the app runs."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.errors import SettingsError, did_you_mean
from engine.settings.declared import KNOWN, Settings
from engine.settings.load import build
from engine.settings.registry import ALL_SETTINGS, Resolved, Setting, parse, plain_number

SOURCE = "/set"

OF_THAT_ANSWER = "that answer"
"""The source of values that an earlier answer was made with."""

OF_A_CONVERSATION = tuple(
    name
    for name, one in KNOWN.items()
    if one.when == "live"
    and (
        name.split(".")[0] in ("sampling", "draft")
        or name in ("chat.thinking", "chat.effort", "chat.thinking_budget")
    )
)
"""Settings of how an answer is made: each conversation keeps its own."""


@dataclass(slots=True)
class LiveSettings:
    """The settings of a running chat, with what changed since its start."""

    resolved: dict[str, Resolved]
    settings: Settings = field(init=False)
    base: dict[str, Resolved] = field(init=False)
    """What holds where nothing was changed."""

    def __post_init__(self) -> None:
        self.base = dict(self.resolved)
        self.settings = build(self.resolved)

    @classmethod
    def of(cls, sources: Mapping[str, Resolved]) -> "LiveSettings":
        """Begin with what the start resolved."""
        return cls(dict(sources))

    def rebase(self, sources: Mapping[str, Resolved]) -> None:
        """Go on with what another profile's start resolves; what was changed since stays."""
        changed = {name: one for name, one in self.resolved.items() if one.source == SOURCE}
        self.base = dict(sources)
        self.resolved = {**sources, **changed}
        self.settings = build(self.resolved)

    def reset(self, name: str) -> None:
        """Take a change back; raises `SettingsError` for an unknown name."""
        full = full_name(name)
        self.resolved[full] = self.base[full]
        self.settings = build(self.resolved)

    def kept(self) -> dict[str, str]:
        """What was changed for this conversation, as a session keeps it."""
        found = {name: self.resolved[name] for name in OF_A_CONVERSATION}
        return {name: raw_text(one.value) for name, one in found.items() if one.source == SOURCE}

    def in_force(self) -> dict[str, str]:
        """How an answer is made now: every setting of a conversation that is not as declared."""
        found = {name: self.resolved[name].value for name in OF_A_CONVERSATION}
        return {
            name: raw_text(value) for name, value in found.items() if value != KNOWN[name].default
        }

    def like(self, values: Mapping[str, str]) -> tuple["LiveSettings", list[str]]:
        """Settings of their own to answer once more as an earlier answer was made.

        Args:
            values: what was `in_force` then.

        Returns:
            The settings, whose defaults are those values, and a sentence for each that does not
            read: it may come from another version, or from a person's editor.
        """
        refused: list[str] = []
        found = dict(self.resolved)
        for name in OF_A_CONVERSATION:
            one = KNOWN[name]
            found[name] = Resolved(one.default, "default")
            if name in values:
                try:
                    found[name] = Resolved(parse(one, values[name], OF_THAT_ANSWER), OF_THAT_ANSWER)
                except SettingsError as error:
                    refused.append(str(error))
        return LiveSettings(found), refused

    def adopt(self, values: Mapping[str, str]) -> list[str]:
        """Go on with what another conversation keeps; returns a sentence for each it cannot take.

        A session may come from another version, or from a person's editor.
        """
        for name in OF_A_CONVERSATION:
            self.reset(name)
        refused: list[str] = []
        for name, raw in values.items():
            try:
                if full_name(name) in OF_A_CONVERSATION:
                    self.set(name, raw)
            except SettingsError as error:
                refused.append(str(error))
        return refused

    def set(self, name: str, raw: str, command: str = SOURCE) -> str:
        """Change a setting, by full name or by its last part; returns what to say.

        ``command`` is what a refused value is told to come from.

        Raises:
            SettingsError: the name is unknown or ambiguous, the value does not read, or a change
                needs a new start.
        """
        full = full_name(name)
        one = KNOWN[full]
        if one.when == "start":
            raise SettingsError(
                f"'{full}' is read at the start only.", f"Restart with it, or set {one.env}."
            )
        self.resolved[full] = Resolved(parse(one, raw, command), SOURCE)
        self.settings = build(self.resolved)
        when = " from the next conversation on" if one.when == "session" else ""
        return f"{full} is {show_value(self.resolved[full].value)} ({SOURCE}){when}."

    def describe(self, name: str) -> str:
        """One setting as ``name is value (source)``, with what it may be."""
        full = full_name(name)
        found = self.resolved[full]
        told = f"{full} is {show_value(found.value)} ({found.source})"
        return f"{told}, {limits}" if (limits := limits_of(KNOWN[full])) else told


def full_name(name: str) -> str:
    """The full name of a setting given by full name or by a last part that only one has.

    Raises:
        SettingsError: no setting, or several, are called so.
    """
    wanted = name.strip().lower().replace("-", "_")
    if wanted in KNOWN:
        return wanted
    fitting = [full for full in KNOWN if full.split(".")[1] == wanted]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        raise SettingsError(f"'{name}' fits {' and '.join(fitting)}.", "Write the full name.")
    leaves = {full.split(".")[1]: full for full in KNOWN}
    hint = did_you_mean(wanted, [*KNOWN, *leaves]) or ALL_SETTINGS
    raise SettingsError(f"There is no setting '{name}'.", hint)


def raw_text(value: object) -> str:
    """A value as it is typed again: empty for none."""
    return "" if value is None else show_value(value) if isinstance(value, bool) else str(value)


def limits_of(one: Setting) -> str:
    """What a setting may be, as ``one of ...`` or ``from ... to ...``; empty for no limit."""
    if one.type is bool:
        return "one of on, off"
    if one.choices:
        return f"one of {', '.join(one.choices)}"
    if not one.bounds:
        return ""
    low, high = one.bounds
    return f"from {plain_number(low)} to {plain_number(high)}"


def show_value(value: object) -> str:
    """A value as a person writes it."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return "empty" if value in (None, "", ()) else str(value)
