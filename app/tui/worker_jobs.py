"""What the engine's thread is asked to do beside answering, one thing after the other."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from engine.types import ChatEngine, LoadProgressed, Request

OpenEngine = Callable[[Callable[[LoadProgressed], None], threading.Event], ChatEngine]
"""Opens the engine: reports progress, and gives up soon after the event is set."""


@dataclass(slots=True)
class Load:
    """A model to open.

    ``beside`` leaves the one before it in memory until this one is there, ``keeps`` also after
    that, and ``returns`` takes the one that was kept.
    """

    opener: OpenEngine
    beside: bool = False
    keeps: bool = False
    returns: bool = False
    cancel: threading.Event = field(default_factory=threading.Event)
    is_superseded: bool = False


@dataclass(slots=True)
class ReadAhead:
    """A conversation to read before its next message."""

    request: Request
    stop: threading.Event = field(default_factory=threading.Event)


Job = Load | ReadAhead | Request | None
"""None ends the thread."""
