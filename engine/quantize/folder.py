"""The folder of the result: whole files only, and nothing that another run put there is touched."""

import contextlib
import errno
import fcntl
import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import torch
from safetensors import SafetensorError
from safetensors import torch as safetensors_torch

from engine.errors import OutputError, RequestError, how_to_write
from engine.quantize.manifest import MANIFEST_NAME, Manifest, Part, Recipe, hash_file
from engine.quantize.methods import Loss

UNFINISHED = ".tmp"
"""Ending of a file that is being written."""

GO_ON = "The finished layers are kept: run the same command again to go on."


class Folder:
    """A folder in which parts appear one after another, each whole or not at all.

    Args:
        path: exists.
        manifest: of the run.
    """

    def __init__(self, path: Path, manifest: Manifest) -> None:
        self.path = path
        self.manifest = manifest

    def has(self, name: str) -> bool:
        """Whether a part is done and its file is what was written."""
        part = self.manifest.parts.get(name)
        if part is None:
            return False
        try:
            path = self.path / part.file
            return path.stat().st_size == part.num_bytes and hash_file(path) == part.sha256
        except OSError:
            return False

    def load(self, name: str) -> dict[str, torch.Tensor]:
        """The tensors of a finished part by name on disk."""
        path = self.path / self.manifest.parts[name].file
        return cast("Any", safetensors_torch).load_file(path)

    def save(
        self,
        name: str,
        tensors: Mapping[str, torch.Tensor],
        losses: Mapping[str, Loss],
        seconds: float,
    ) -> None:
        """Write a part, then the manifest that knows it.

        Args:
            name: of the part; the file is called after it.
            tensors: by name on disk; copied to the host.
            losses: of its quantised matrices.
            seconds: that it took.

        Raises:
            OutputError: the disk refuses; what was there before is as it was.
        """
        file = f"{name}.safetensors"
        held = {key: one.cpu().contiguous() for key, one in tensors.items()}
        with self._replacing(file) as path:
            cast("Any", safetensors_torch).save_file(held, path, metadata={"format": "pt"})
        path = self.path / file
        size = path.stat().st_size
        part = Part(file, hash_file(path), size, round(seconds, 3), losses)
        self.manifest.parts[name] = part
        self.write_text(MANIFEST_NAME, self.manifest.as_json())

    def write_text(self, file: str, text: str) -> None:
        """Write a text file whole.

        Raises:
            OutputError: the disk refuses.
        """
        with self._replacing(file) as path:
            path.write_text(text, encoding="utf-8")

    def copy(self, source: Path) -> None:
        """Copy a file of the source under its own name; a link is followed.

        Raises:
            OutputError: the disk refuses.
        """
        with self._replacing(source.name) as path:
            path.write_bytes(source.read_bytes())

    @contextmanager
    def _replacing(self, file: str) -> Generator[Path]:
        """A path to write that becomes ``file`` when the block ends well."""
        path = self.path / f".{file}{UNFINISHED}"
        try:
            yield path
            path.chmod(0o644)
            with path.open("rb") as written:
                os.fsync(written.fileno())
            path.replace(self.path / file)
        except (OSError, SafetensorError) as problem:
            with contextlib.suppress(OSError):
                path.unlink()
            why = getattr(problem, "strerror", None) or str(problem)
            raise OutputError(f"{self.path / file} cannot be written: {why}.", GO_ON) from None


@contextmanager
def open_folder(path: Path, recipe: Recipe) -> Generator[Folder]:
    """Make the folder of a result, or go on in one that the same recipe began.

    No second run can open it meanwhile.

    Raises:
        RequestError: it holds something else, was begun by another recipe, or another run is at
            work in it.
        OutputError: it cannot be made.
    """
    expect_ours(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
        lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as problem:
        raise OutputError(
            f"{path} cannot be written: {problem.strerror}.", how_to_write(problem)
        ) from None
    try:
        _lock(path, lock)
        yield _begun(path, recipe)
    finally:
        os.close(lock)


def expect_ours(path: Path) -> None:
    """Refuse a folder that holds what no quantisation of ours put there.

    Raises:
        RequestError: it or a folder above it is a file, or it has contents and no manifest.
        OutputError: it cannot be written.
    """
    whole = path.absolute()
    there = next(one for one in (whole, *whole.parents) if os.path.lexists(one))
    if not there.is_dir():
        raise RequestError(
            f"{there} is no folder.", "Give the name of a new folder for the result."
        )
    if not os.access(there, os.W_OK | os.X_OK):
        raise OutputError(
            f"{there} cannot be written: {os.strerror(errno.EACCES)}.", "Give another folder."
        )
    if not path.is_dir() or (path / MANIFEST_NAME).is_file():
        return
    foreign = [one.name for one in path.iterdir() if not _is_scratch(one.name)]
    if foreign:
        raise RequestError(
            f"{path} holds other files already, such as '{min(foreign)[:80]}'.",
            "Give the name of a new or an empty folder for the result.",
        )


def _is_scratch(name: str) -> bool:
    """Whether a file is what a killed run was writing."""
    return name.startswith(".") and name.endswith(UNFINISHED)


def _lock(path: Path, lock: int) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as problem:
        if problem.errno not in (errno.EWOULDBLOCK, errno.EACCES):
            return  # a file system without locks
        raise RequestError(
            f"Another run is at work in {path}.", "Wait for it, or give another folder."
        ) from None


def _begun(path: Path, recipe: Recipe) -> Folder:
    for one in path.iterdir():
        if _is_scratch(one.name):
            one.unlink()
    if not (path / MANIFEST_NAME).is_file():
        return Folder(path, Manifest.begin(recipe))
    manifest = Manifest.read(path)
    if differing := manifest.differences(recipe):
        raise RequestError(
            f"{path} was begun otherwise: {'; '.join(differing)}.",
            "Give another folder for the result, or the options that it was begun with.",
        )
    return Folder(path, manifest)
