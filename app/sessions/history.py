"""Prompts that were sent, over all sessions and both front ends: JSON lines, appended only."""

from itertools import groupby
from pathlib import Path

from app.appended import AppendedFile
from app.sessions.logfile import read_lines, to_line
from engine.own_file import read_tail

MAX_ENTRIES = 2000
"""Prompts that are read back; older ones stay in the file."""

MAX_BYTES = 32 << 20
"""What is read of the end of the file: most entries have less than a kB."""

MAX_ENTRY_CHARACTERS = 100_000
"""A paste above this is a document, not a prompt that the next run recalls."""


class PromptHistory:
    """The history file; two programs may append to it at once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._entries: list[str] | None = None

    def entries(self) -> list[str]:
        """The prompts, newest last, each once in a row."""
        if self._entries is None:
            self._entries = self._read()
        return self._entries

    def add(self, prompt: str) -> OSError | None:
        """Keep a prompt, unless it repeats the last one.

        One that begins with a space, or is very long, is kept until the program ends and no longer.
        So is any prompt when the disk has a problem, which is returned.
        """
        entries = self.entries()
        if not prompt.strip() or (entries and entries[-1] == prompt):
            return None
        entries.append(prompt)
        if prompt[0] == " " or len(prompt) > MAX_ENTRY_CHARACTERS:
            return None
        try:
            self._append(to_line({"text": prompt}))
        except OSError as problem:
            return problem
        return None

    def _append(self, line: bytes) -> None:
        file = AppendedFile(self.path)
        file.open(lock=True, wait=True)
        try:
            file.append(line)
        finally:
            file.close()

    def _read(self) -> list[str]:
        try:
            lines, _ = read_lines(read_tail(self.path, MAX_BYTES))
        except OSError:
            return []
        texts = [one["text"] for one in lines if isinstance(one.get("text"), str)]
        return [one for one, _ in groupby(texts)][-MAX_ENTRIES:]
