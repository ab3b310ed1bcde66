"""What the command palette offers: every slash command, and every setting with its values."""

from collections.abc import Callable, Iterable, Iterator

from textual.app import SystemCommand

from app.slash import SLASH_COMMANDS
from engine.settings.declared import KNOWN
from engine.settings.registry import Setting


def system_commands(run: Callable[[str], None]) -> Iterable[SystemCommand]:
    """One entry a command, and one a setting or value; ``run`` takes each as it would be typed."""
    for one in SLASH_COMMANDS:
        line = f"/{one.name}"
        yield SystemCommand(line, one.help, lambda line=line: run(line))
    for setting in KNOWN.values():
        for line in _lines(setting):
            yield SystemCommand(line, _about(setting), lambda line=line: run(line))


def _lines(setting: Setting) -> Iterator[str]:
    """A setting of a few words has an entry for each; the others open, or say how they stand."""
    values = ("on", "off") if setting.type is bool else setting.choices
    if setting.when == "start" or not values:
        yield f"/set {setting.name}"
        return
    yield from (f"/set {setting.name} {value}" for value in values)


def _about(setting: Setting) -> str:
    return setting.help + (" (at the start only)" if setting.when == "start" else "")
