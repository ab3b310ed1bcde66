"""The errors a person may meet, each a sentence: what happened, the value, how to mend it."""

import difflib
from collections.abc import Iterable

MAX_LISTED = 48
"""Names that a hint spells out; there are fewer settings."""


class EngineError(Exception):
    """Base of every failure that is shown to a person.

    Args:
        message: what happened, with the offending value and what was expected.
        mend: one sentence that says what to do about it; may be empty.
    """

    title = "Error"

    def __init__(self, message: str, mend: str = "") -> None:
        self.message = message
        self.mend = mend
        super().__init__(f"{message} {mend}".strip())


class SettingsError(EngineError):
    """A setting has an unknown name or an unreadable value."""

    title = "Settings"


class ProfileError(EngineError):
    """A profile is unknown, or its file does not read."""

    title = "Profile"


class CheckpointError(EngineError):
    """A model folder is missing, damaged, foreign or of an unknown layout."""

    title = "Checkpoint"


class TemplateError(EngineError):
    """The chat template refuses the conversation or tries what a template may not do."""

    title = "Chat template"


class MemoryPlanError(EngineError):
    """The model and its state do not fit on this machine."""

    title = "Memory"


class RequestError(EngineError):
    """A request asks for something the engine cannot do."""

    title = "Request"


class OutputError(EngineError):
    """A file that was asked for cannot be written."""

    title = "Output"


class CancelledError(EngineError):
    """The person stopped a load before it was complete."""

    title = "Cancelled"


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a hint that names the closest known spelling of ``name``, or lists what is known.

    A list of more than `MAX_LISTED` names helps nobody and is left out.
    """
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    if close:
        return f"Did you mean '{close[0]}'?"
    return f"Known are: {', '.join(names)}." if 0 < len(names) <= MAX_LISTED else ""
