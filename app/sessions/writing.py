"""Write a conversation line by line; say in words when the disk refuses and when it gives in."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from app.sessions.entries import Contents
from app.sessions.lines import message_line, session_line, settings_line, title_line
from app.sessions.logfile import LogFile


class SessionWriter:
    """The file behind a conversation; the first line writes all that the conversation holds.

    Args:
        log: the file; locked, unless the conversation is a copy or read only.
        is_new: it holds nothing yet.

    Attributes:
        has_begun: whether the file holds the conversation, or will once the disk gives in.
        problem: why the last write failed; empty when it did not.
        warnings: sentences a person should see; only ever grows.
    """

    def __init__(self, log: LogFile, *, is_new: bool) -> None:
        self._log = log
        self.has_begun = not is_new
        self.problem = ""
        self.warnings: list[str] = []

    @property
    def path(self) -> Path:
        """The file; it is made with the first line."""
        return self._log.path

    @property
    def is_whole(self) -> bool:
        """Whether the disk has taken every line, or the person asked for no disk."""
        return self._log.num_waiting == 0

    def write(self, contents: Contents, line: Mapping[str, Any]) -> None:
        """Write a line that says what has changed.

        Args:
            contents: the conversation, changed already.
            line: of `app.sessions.lines`, with the time it happened at.
        """
        contents.touch(line)
        lines = [line] if self.has_begun else [*_lines_before(contents, line), line]
        self.has_begun = True
        problem = self._log.append_all(lines)
        if problem is not None:
            self.warn(problem)
            return
        if self.problem:
            self.warnings.append("The conversation is on disk again, with nothing missing.")
        self.problem = ""

    def warn(self, problem: OSError) -> None:
        """Say what the disk refuses, once until it gives in."""
        is_known = bool(self.problem)
        self.problem = problem.strerror or str(problem)
        if not is_known:
            self.warnings.append(
                f"The conversation is not on disk: {self.problem} ({self.path}). "
                "It is kept in memory and tried again with every message; "
                "/export writes it elsewhere."
            )

    def begin_again(self, path: Path) -> None:
        """Leave the file as it is; the next line writes all of the conversation to another."""
        self._log.close()
        self._log = LogFile(path, keep=self._log.keep)
        self.has_begun = False

    def close(self) -> None:
        """Let go of the file."""
        self._log.close()


def _lines_before(contents: Contents, line: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """What a new file holds in front of its first change."""
    at = contents.updated
    lines: list[Mapping[str, Any]] = [session_line(contents)]
    if contents.given_title:
        lines.append(title_line(contents.given_title, at))
    if contents.settings:
        lines.append(settings_line(contents, at))
    others = [one for one in contents.messages.values() if one.id != line.get("id")]
    lines += [message_line(one, contents.ids_before(one)) for one in others]
    if others and contents.leaf != line.get("id"):
        lines.append({"type": "branch", "id": contents.leaf, "at": at})
    return lines
