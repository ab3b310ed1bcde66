"""Completing the name of a file behind ``@``, for both front ends; knows no screen."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from app.attached import mention_of
from engine.errors import RequestError
from engine.settings.environment import expanded

MOST_NAMES = 200
_PARTIAL = re.compile(r'(?<!\S)@("?)([^"\n]*)$')


@dataclass(frozen=True, slots=True)
class Completion:
    """What a name that is being typed may become.

    Attributes:
        typed: it, as it stands at the end of the text, with its sign.
        names: what fits, a folder with its slash; sorted.
    """

    typed: str
    names: list[str]

    @property
    def longest(self) -> str:
        """The mention as far as all names agree; empty when that is no more than was typed."""
        common = _common(self.names)
        try:
            whole = mention_of(common) if common else ""
        except RequestError:
            return ""
        if whole.startswith('@"') and (len(self.names) > 1 or common.endswith("/")):
            whole = whole.removesuffix('"')  # the name goes on
        return whole if len(whole) > len(self.typed) else ""


def name_at(before: str) -> str:
    """The name of a file that is being typed at the end of a text; empty where none is."""
    found = _PARTIAL.search(before)
    return found[2] if found is not None and (found[1] or " " not in found[2]) else ""


def completion_at(before: str) -> Completion | None:
    """What may follow at the end of a text; None where no file is being named."""
    found = _PARTIAL.search(before)
    if found is None or (not found[1] and " " in found[2]):
        return None
    typed = found[2]
    names = _names_like(typed)
    return Completion(before[found.start() :], names) if names else None


def _names_like(typed: str) -> list[str]:
    above, slash, begin = typed.rpartition("/")
    folder = above + slash
    found: list[str] = []
    try:
        for one in expanded(folder or ".").iterdir():
            hidden = one.name.startswith(".") and not begin.startswith(".")
            if one.name.startswith(begin) and not hidden and one.name.isprintable():
                found.append(f"{folder}{one.name}{'/' if one.is_dir() else ''}")
                if len(found) == MOST_NAMES:
                    break
    except (OSError, ValueError):
        return []
    return sorted(name for name in found if '"' not in name)


def _common(names: Sequence[str]) -> str:
    first, last = (min(names), max(names)) if names else ("", "")
    size = next((at for at, sign in enumerate(first) if last[at : at + 1] != sign), len(first))
    return first[:size]
