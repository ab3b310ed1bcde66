"""The draft of conversations that have no message yet: their ids mean nothing to the next start.

Each window has a file of its own, ``new.txt`` or ``new-2.txt`` and so on, and holds it against the
others until its process ends. A window that begins takes up what an earlier one left.
"""

import re
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from app.appended import AppendedFile
from app.sessions.drafts import read_draft, write_draft

NAME = "new"
_DRAFT = re.compile(rf"{NAME}(-\d+)?\.txt")


class UntitledDraft:
    """This window's draft; its file is chosen at the first text that is found or written.

    Args:
        folder: of the drafts.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._hold: AppendedFile | None = None
        self._path: Path | None = None

    def read(self) -> str:
        """What was typed and not sent, here or by a window that is gone."""
        if self._path is None:
            left = [one for one in self._found() if read_draft(one)]
            try:
                self._path = next((one for one in left if self._holds(one)), None)
            except OSError:  # a disk that is read only: what it holds is shown all the same
                return read_draft(left[0])
        return read_draft(self._path) if self._path is not None else ""

    def write(self, text: str) -> OSError | None:
        """Replace it, or remove it when ``text`` is empty; a problem is returned."""
        if self._path is None:
            if not text:
                return None
            try:
                self._path = next(one for one in self._names() if self._holds(one))
            except OSError as problem:
                return problem
        return write_draft(self._path, text)

    def close(self) -> None:
        """Leave it to the next window; the draft stays."""
        if self._hold is not None:
            self._hold.close()
        self._hold = self._path = None

    def _found(self) -> list[Path]:
        """Every window's, the newest first."""
        try:
            paths = [one for one in self._folder.iterdir() if _DRAFT.fullmatch(one.name)]
            return sorted(paths, key=lambda one: one.stat().st_mtime, reverse=True)
        except OSError:
            return []

    def _names(self) -> Iterator[Path]:
        yield self._folder / f"{NAME}.txt"
        yield from (self._folder / f"{NAME}-{number}.txt" for number in count(2))

    def _holds(self, path: Path) -> bool:
        # the draft itself is replaced whenever it is written, and a lock would go with it
        hold = AppendedFile(path.with_name(f".{path.stem}.lock"))
        if not hold.open(lock=True):
            return False
        self._hold = hold
        return True
