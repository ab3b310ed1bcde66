"""The errors a person may meet, each a sentence: what happened, the value, how to mend it."""

import errno
from collections.abc import Iterable

MAX_LISTED = 48
"""Names that a hint spells out; there are fewer settings."""

MAX_MESSAGE = 1200
"""Characters of what happened: a value that a file or a command line holds may have megabytes."""

LONG_LETTERS = 8
"""Letters from which on a name may hold two slips and still be near."""


class EngineError(Exception):
    """Base of every failure that is shown to a person.

    Args:
        message: what happened, with the offending value and what was expected; one that is longer
            than anybody reads loses its middle, where such a value stands.
        mend: one sentence that says what to do about it; may be empty.
    """

    title = "Error"

    def __init__(self, message: str, mend: str = "") -> None:
        self.message = _readable(message)
        self.mend = mend
        super().__init__(f"{self.message} {mend}".strip())


def _readable(message: str) -> str:
    if len(message) <= MAX_MESSAGE:
        return message
    half = MAX_MESSAGE // 2 - 4
    return f"{message[:half]} [...] {message[-half:]}"


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


def how_to_write(problem: OSError) -> str:
    """What to do about a file that the system does not let be written."""
    if problem.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return "Make room, or give a place on another disk."
    if problem.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return "Give a place that you may write to."
    return "Give another place."


def how_to_read(problem: OSError) -> str:
    """What to do about a file that the system does not let be read."""
    if problem.errno in (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG):
        return "Check its name."
    if problem.errno in (errno.EACCES, errno.EPERM):
        return "Allow yourself to read it."
    if problem.errno == errno.ELOOP:
        return "Its links lead back to themselves: let them end at a file."
    if problem.errno in (errno.EISDIR, errno.EINVAL):
        return "Give a plain file."
    return "Move it away." if problem.errno == errno.EFBIG else "Check the disk."


_OTHER_WORDS = {"gpu": "cuda"}
"""What people call a thing, where one slip makes another one of it: 'cpu' is not what they mean."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a hint that names the one known spelling that ``name`` is near to; empty for none.

    Near is what one slip of the hand makes of a word, and the only name that begins so; what is
    known itself was meant.
    """
    names = sorted(known)
    if name in names:
        return ""
    if (meant := _OTHER_WORDS.get(name)) in names:
        return f"Did you mean '{meant}'?"
    begun = [one for one in names if name and one.startswith(name)]
    if len(begun) == 1:
        return f"Did you mean '{begun[0]}'?"
    most = min(2 if len(name) >= LONG_LETTERS else 1, len(name) - 1)
    found = ((_num_slips(name, one, most), one) for one in names)
    slips, closest = min(found, default=(most + 1, ""))
    return f"Did you mean '{closest}'?" if slips <= most else ""


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a hint that names the closest known spelling of ``name``, or lists what is known.

    A list of more than `MAX_LISTED` names helps nobody and is left out.
    """
    names = sorted(known)
    listed = f"Known are: {', '.join(names)}." if 0 < len(names) <= MAX_LISTED else ""
    return did_you_mean(name, names) or listed


def _num_slips(first: str, second: str, most: int) -> int:
    """Letters to put in, leave out, replace or swap with a neighbour to turn one into the other.

    The optimal string alignment distance (Damerau-Levenshtein, no part edited twice), or a number
    above ``most`` as soon as that is certain.
    """
    begun = 0
    while first[begun : begun + 1] == second[begun : begun + 1] != "":
        begun += 1
    first, second = first[begun:], second[begun:]
    if abs(len(first) - len(second)) > most:
        return most + 1
    before: list[int] = []
    above = list(range(len(second) + 1))
    for i, a in enumerate(first, 1):
        row = [i]
        for j, b in enumerate(second, 1):
            best = min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (a != b))
            if i > 1 and j > 1 and a == second[j - 2] and first[i - 2] == b:
                best = min(best, before[j - 2] + 1)
            row.append(best)
        if min(row) > most:
            return most + 1
        before, above = above, row
    return above[-1]
