"""What the command palette offers: the slash commands of the one table, and the themes."""

from collections.abc import Callable, Iterable

from textual.app import SystemCommand

from app.slash import SLASH_COMMANDS
from app.tui.theme import NAMES


def system_commands(run: Callable[[str], None]) -> Iterable[SystemCommand]:
    """One entry a command; ``run`` takes it as it would be typed."""
    for one in SLASH_COMMANDS:
        line = f"/{one.name}"
        yield SystemCommand(line, one.help, lambda line=line: run(line))
    for theme in NAMES:
        line = f"/set theme {theme}"
        yield SystemCommand(line, "colours", lambda line=line: run(line))
