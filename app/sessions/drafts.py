"""What the person typed and did not send yet, on disk while they type."""

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
    """Replace the draft in one step, or remove it when ``text`` is empty; a problem is returned.

    One process writes a draft, so that a half of one that was killed lies where the next begins.
    """
    half = path.with_name(f".{path.name}.half")
    try:
        if text:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            half.write_bytes(text.encode("utf-8", "surrogatepass"))
            half.replace(path)
        else:
            path.unlink(missing_ok=True)
            half.unlink(missing_ok=True)
    except OSError as problem:
        return problem
    return None
