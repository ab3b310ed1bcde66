"""The record beside quantised weights: what they were made of and how, and which parts are done.

It is written anew after every part, so that it is the state of an interrupted run as well.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, cast

from engine.errors import CheckpointError, RequestError
from engine.machine.facts import now
from engine.model.strict_json import read_object
from engine.quantize.methods import Loss

MANIFEST_NAME = "quantize.json"
MAX_MANIFEST_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything that decides the bytes of the result, in plain values.

    ``source`` is the SHA-256 of all source files (`hash_files`), ``calibration`` of the text; the
    numbers of tokens and sequences are those used. ``torch`` and ``device`` are there because
    library products round in their own order; the threads of a CPU, which may change it too, are
    not, so that a run may go on with others.
    """

    method: str
    source: str
    source_name: str
    calibration: str
    calibration_name: str
    tokens: int
    sequence: int
    program: str
    torch: str
    device: str


@dataclass(frozen=True, slots=True)
class Part:
    """One finished file: its digest and size, and what each matrix in it lost."""

    file: str
    sha256: str
    num_bytes: int
    seconds: float
    matrices: Mapping[str, Loss]


@dataclass(slots=True)
class Manifest:
    """A recipe, and the parts that were made by it so far, by name."""

    recipe: Recipe
    begun: str
    finished: str = ""
    parts: dict[str, Part] = field(default_factory=dict[str, Part])

    @classmethod
    def begin(cls, recipe: Recipe) -> "Manifest":
        """A manifest without parts."""
        return cls(recipe, now())

    @classmethod
    def read(cls, folder: Path) -> "Manifest":
        """Read the manifest of a folder.

        Raises:
            RequestError: it does not read, or is no manifest of this program.
        """
        path = folder / MANIFEST_NAME
        try:
            data = read_object(path, MAX_MANIFEST_BYTES)
            parts = cast("dict[str, dict[str, Any]]", data["parts"])
            return cls(
                Recipe(**data["recipe"]),
                str(data["begun"]),
                str(data["finished"]),
                {name: _part(one) for name, one in parts.items()},
            )
        except CheckpointError as problem:
            why = problem.message  # what mends a download mends no record of ours
        except (KeyError, TypeError, AttributeError):
            why = f"{path} does not hold the fields that this program writes."
        raise RequestError(
            f"{why.rstrip('.')}, expected the record of a quantisation.",
            "Give another folder for the result, or empty this one.",
        )

    def as_json(self) -> str:
        """The manifest as it lies on disk."""
        return json.dumps(asdict(self), indent=1) + "\n"

    def differences(self, recipe: Recipe) -> list[str]:
        """In what another recipe differs, each in a few words."""
        mine, other = asdict(self.recipe), asdict(recipe)
        return [
            f"{name} '{mine[name]!s:.24}' and now '{other[name]!s:.24}'"
            for name in mine
            if mine[name] != other[name] and not name.endswith("_name")
        ]


def _part(data: dict[str, Any]) -> Part:
    losses = {name: Loss(**one) for name, one in data.pop("matrices").items()}
    return Part(**data, matrices=losses)


def hash_file(path: Path) -> str:
    """SHA-256 of a file.

    Raises:
        OSError: it does not read.
    """
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def hash_files(paths: list[Path]) -> str:
    """SHA-256 over names and digests of files of one folder, in the order of their names.

    Raises:
        CheckpointError: one does not read.
    """
    digest = hashlib.sha256()
    for path in sorted(paths, key=lambda one: one.name):
        try:
            digest.update(f"{path.name} {hash_file(path)}\n".encode())
        except OSError as problem:
            raise CheckpointError(
                f"{path} does not read: {problem.strerror}.", "Check the disk."
            ) from None
    return digest.hexdigest()
