"""Time as the screen shows it; tests give a clock of their own."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime


def local_minute(iso: str) -> str:
    """An ISO 8601 time as hour and minute here; empty for one that does not read."""
    return _local(iso, "%H:%M")


def local_day(iso: str) -> str:
    """An ISO 8601 time as day and minute here; empty for one that does not read."""
    return _local(iso, "%Y-%m-%d %H:%M")


def _local(iso: str, form: str) -> str:
    try:
        return datetime.fromisoformat(iso).astimezone().strftime(form)
    except ValueError:
        return ""


@dataclass(frozen=True, slots=True)
class Clock:
    """Where seconds and times of day come from."""

    seconds: Callable[[], float] = time.monotonic
    minute: Callable[[str], str] = local_minute
