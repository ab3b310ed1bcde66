"""JSON objects from files that somebody else wrote: bounded, and no name may stand twice."""

import json
from pathlib import Path
from typing import Any, cast

from engine.errors import CheckpointError
from engine.model.plain_file import AGAIN, mend_of, read_bounded


def read_object(path: Path, max_bytes: int) -> dict[str, Any]:
    """Read a JSON object from a file of at most ``max_bytes``.

    Raises:
        CheckpointError: the file is missing, too long or no plain file, or `parse_object` refuses
            it.
    """
    try:
        raw = read_bounded(path, max_bytes)
    except FileNotFoundError:
        raise CheckpointError(
            f"{path} is missing.", "A checkpoint folder holds config.json and *.safetensors files."
        ) from None
    except OSError as problem:
        raise CheckpointError(
            f"{path} does not read: {problem.strerror}.", mend_of(problem)
        ) from None
    return parse_object(path, raw)


def parse_object(path: Path, raw: bytes) -> dict[str, Any]:
    """Parse a JSON object.

    Raises:
        CheckpointError: it is no JSON, no object, or an object in it names a key twice.
    """
    try:
        data = json.loads(raw, object_pairs_hook=lambda pairs: _unique(path, pairs))
    except (ValueError, RecursionError) as problem:
        raise CheckpointError(f"{path} does not read as JSON: {problem}.", AGAIN) from None
    if not isinstance(data, dict):
        raise CheckpointError(f"{path} does not hold a JSON object.", AGAIN)
    return cast("dict[str, Any]", data)


def _unique(path: Path, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise CheckpointError(f"{path} names '{name[:200]}' twice.", AGAIN)
        found[name] = value
    return found
