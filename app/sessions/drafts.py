"""What the person typed and did not send yet, on disk while they type."""

import contextlib
import os
from pathlib import Path

from engine.own_file import read_own

MAX_BYTES = 1 << 30
"""More than anybody pastes."""


def read_draft(path: Path) -> str:
    """The draft, or nothing."""
    try:
        return read_own(path, MAX_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


def write_draft(path: Path, text: str) -> OSError | None:
    """Replace the draft in one step, or remove it when ``text`` is empty; a problem is returned."""
    try:
        if not text:
            path.unlink(missing_ok=True)
            return None
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        fresh = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            fresh.write_bytes(text.encode("utf-8", "surrogatepass"))
            fresh.replace(path)
        except OSError:
            with contextlib.suppress(OSError):
                fresh.unlink(missing_ok=True)
            raise
    except OSError as problem:
        return problem
    return None
