"""The folder of all conversations: make, open, list, delete."""

import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from app.sessions.entries import Contents, read_contents
from app.sessions.logfile import LogFile, read_lines
from app.sessions.session import Session, now
from engine.errors import EngineError, nearest

SUFFIX = ".jsonl"


class SessionError(EngineError):
    """A session is unknown, unreadable or in use."""

    title = "Session"


@dataclass(frozen=True, slots=True)
class SessionSummary:
    """One line of the list of sessions; times are ISO 8601 in UTC."""

    id: str
    title: str
    created: str
    updated: str
    num_messages: int
    path: Path


class SessionStore:
    """Sessions as files ``ID.jsonl`` in one folder.

    Args:
        folder: where they lie; it is made with the first message.
        drafts: where unsent text is kept; ``folder``/drafts when not given.
        keep: False keeps new conversations in memory only.
    """

    def __init__(self, folder: Path, drafts: Path | None = None, *, keep: bool = True) -> None:
        self.folder = folder
        self._drafts = drafts or folder / "drafts"
        self._keep = keep

    def create(self, model: str, profile: str, system: str) -> Session:
        """Begin a conversation; nothing is on disk before its first message."""
        session_id = self._new_id()
        created = now()
        contents = Contents(session_id, created, created, model, profile, system)
        log = LogFile(self._path(session_id), keep=self._keep)
        return Session(contents, log, self._drafts, is_new=True)

    def open(self, session_id_or_prefix: str, *, write: bool = True) -> Session:
        """Open a conversation to go on with it.

        Held by another process it opens as a copy, made with the first message and told in the
        session's warnings; so are damaged lines and an answer that a crash cut off. ``write``
        False only reads, and takes nothing from whoever writes it now.

        Raises:
            SessionError: there is no such session, the prefix fits several, or it does not read.
        """
        path = _find(self.folder, session_id_or_prefix)
        log = LogFile(path, keep=self._keep)
        notice = _lock(log) if write else ""
        contents, warnings = _read(path)
        session = Session(contents, log, self._drafts, is_new=False)
        session.warnings += warnings
        if notice:
            session.leave_original(self._path(self._new_id()), notice)
        return session

    def latest(self) -> SessionSummary | None:
        """The session that was written last, if there is one."""
        return next(iter(self.list()), None)

    def list(self) -> list[SessionSummary]:
        """Every readable session, written last first."""
        found: list[SessionSummary] = []
        for path in _paths(self.folder):
            try:
                contents, _ = _read(path)
            except SessionError:
                continue
            found.append(
                SessionSummary(
                    id=contents.id,
                    title=contents.title,
                    created=contents.created,
                    updated=contents.updated,
                    num_messages=len(contents.path_messages()),
                    path=path,
                )
            )
        return sorted(found, key=lambda one: (one.updated, one.id), reverse=True)

    def delete(self, session_id_or_prefix: str) -> str:
        """Remove a session and its draft for good; returns its id.

        Raises:
            SessionError: there is no such session, it is open somewhere, or the disk refuses.
        """
        path = _find(self.folder, session_id_or_prefix)
        log = LogFile(path)
        try:
            if not log.lock():
                raise SessionError(
                    f"The session {path.stem} is open in another window.", "Close it there first."
                )
            path.unlink()
            (self._drafts / f"{path.stem}.txt").unlink(missing_ok=True)
        except OSError as problem:
            raise SessionError(f"{path} cannot be deleted: {problem.strerror}.") from None
        finally:
            log.close()
        return path.stem

    def _new_id(self) -> str:
        stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
        return f"{stamp}-{secrets.token_hex(2)}"

    def _path(self, session_id: str) -> Path:
        return self.folder / f"{session_id}{SUFFIX}"


def _paths(folder: Path) -> list[Path]:
    try:
        return sorted(folder.glob(f"*{SUFFIX}"))
    except OSError:
        return []


def _find(folder: Path, wanted: str) -> Path:
    by_id = {path.stem: path for path in _paths(folder)}
    if wanted in by_id:
        return by_id[wanted]
    fitting = [name for name in by_id if wanted and name.startswith(wanted)]
    if len(fitting) == 1:
        return by_id[fitting[0]]
    if fitting:
        raise SessionError(
            f"'{wanted}' fits {len(fitting)} sessions: {', '.join(fitting[:5])}.",
            "Give more of the id.",
        )
    hint = nearest(wanted, by_id) if len(by_id) < 10 else "See 'qwen38 sessions list'."
    raise SessionError(f"There is no session '{wanted}' in {folder}.", hint)


def _lock(log: LogFile) -> str:
    try:
        if log.lock():
            return ""
    except OSError as problem:
        return f"{log.path} cannot be written ({problem.strerror}); what you add goes into a copy."
    return "This conversation is open in another window; what you add here goes into a copy."


def _read(path: Path) -> tuple[Contents, list[str]]:
    try:
        lines, num_damaged = read_lines(path.read_bytes())
    except OSError as problem:
        raise SessionError(f"{path} does not read: {problem.strerror}.") from None
    contents = read_contents(path.stem, lines)
    if not contents.created and not contents.messages:
        raise SessionError(f"{path} is no session of this program.")
    warnings: list[str] = []
    if num_bad := num_damaged + contents.num_foreign:
        warnings.append(
            f"{num_bad} damaged line{'s' * (num_bad > 1)} of {path.name} could not be read; "
            "everything else is here."
        )
    if contents.mend():
        warnings.append("The last answer was cut off; what had been saved of it is here.")
    return contents, warnings
