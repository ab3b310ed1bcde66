"""The folder of all conversations: make, open, list, delete."""

import secrets
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from app.sessions.drafts import write_draft
from app.sessions.entries import Contents
from app.sessions.lines import FORMAT, read_contents, title_line
from app.sessions.logfile import MAX_SESSION_BYTES, LogFile, read_lines
from app.sessions.session import TRACE_SUFFIX, Session
from app.sessions.session_draft import SessionDraft
from app.sessions.stamps import now
from app.sessions.untitled import UntitledDraft
from engine.errors import EngineError, how_to_read, nearest
from engine.own_file import read_own
from engine.sizes import counted

SUFFIX = ".jsonl"

MOST_NAMED = 5
"""So many files that are no sessions are named."""

MIN_DELETE_CHARACTERS = 8
"""The shortest beginning of an id that is enough to delete a session."""


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
        self._untitled = UntitledDraft(self._drafts)
        self._keep = keep

    def create(self, model: str, profile: str, system: str) -> Session:
        """Begin a conversation; nothing is on disk before its first message."""
        session_id = self._new_id()
        created = now()
        contents = Contents(session_id, created, created, model, profile, system)
        log = LogFile(self._path(session_id), keep=self._keep)
        return Session(contents, log, self._draft(), is_new=True)

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
        try:
            contents, warnings = _read(path)
        except SessionError:
            log.close()
            raise
        session = Session(contents, log, self._draft(), is_new=False)
        session.warnings.extend(warnings)
        if notice:
            session.leave_original(self._path(self._new_id()), notice)
        return session

    def meant(self, session_id_or_prefix: str) -> str:
        """The id of the conversation that is meant.

        Raises:
            SessionError: there is no such session, or the prefix fits several.
        """
        return _find(self.folder, session_id_or_prefix).stem

    def close(self) -> None:
        """Let go of what this window holds besides its session."""
        self._untitled.close()

    def latest(self) -> SessionSummary | None:
        """The session that was written last, if there is one."""
        return next(iter(self.list()), None)

    def survey(self) -> tuple[list[SessionSummary], str]:
        """Every readable session, written last first, and a sentence about the files that are not.

        Raises:
            SessionError: the folder does not read.
        """
        found: list[SessionSummary] = []
        paths, unreadable = _paths(self.folder)
        for path in paths:
            try:
                contents, _ = _read(path)
            except SessionError:
                unreadable.append(path)
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
        found.sort(key=lambda one: (one.updated, one.id), reverse=True)
        if not unreadable:
            return found, ""
        files = counted(len(unreadable), "file")
        names = ", ".join(path.name for path in unreadable[:MOST_NAMED])
        more = ", ..." * (len(unreadable) > MOST_NAMED)
        return found, f"{files} in {self.folder} could not be read: {names}{more}."

    def list(self) -> list[SessionSummary]:
        """The sessions of `survey`.

        Raises:
            SessionError: the folder does not read.
        """
        return self.survey()[0]

    def rename(self, session_id: str, title: str) -> None:
        """Give a session that is not open here another title; empty takes its first words again.

        Raises:
            SessionError: there is no such session, it is open somewhere, or the disk refuses.
        """
        path = _find(self.folder, session_id)
        log = _hold(path, "renamed")
        problem = log.append(title_line(title, now()))
        log.close()
        if problem is not None:
            raise _refused(path, "renamed", problem)

    def delete(self, session_ids: Sequence[str]) -> Sequence[str]:
        """Remove sessions, their traces and drafts for good, all or none; returns their ids.

        Args:
            session_ids: ids, or beginnings of `MIN_DELETE_CHARACTERS` and more.

        Raises:
            SessionError: there is no such session, its id is cut too short, it is open somewhere,
                or the disk refuses.
        """
        paths = dict.fromkeys(
            _find(self.folder, one, min_characters=MIN_DELETE_CHARACTERS) for one in session_ids
        )
        with ExitStack() as held:
            for path in paths:
                held.callback(_hold(path, "deleted").close)
            for path in paths:
                try:
                    path.unlink()
                    path.with_suffix(TRACE_SUFFIX).unlink(missing_ok=True)
                except OSError as problem:
                    raise _refused(path, "deleted", problem) from None
                if problem := write_draft(self._drafts / f"{path.stem}.txt", ""):
                    raise _refused(path, "deleted", problem)
        return [path.stem for path in paths]

    def _draft(self) -> SessionDraft:
        return SessionDraft(self._drafts, self._untitled)

    def _new_id(self) -> str:
        stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
        return f"{stamp}-{secrets.token_hex(2)}"

    def _path(self, session_id: str) -> Path:
        return self.folder / f"{session_id}{SUFFIX}"


def _paths(folder: Path) -> tuple[list[Path], list[Path]]:
    """The files of sessions, and what else bears their ending: opening a pipe would hang."""
    try:
        named = sorted(path for path in folder.iterdir() if path.suffix == SUFFIX)
    except FileNotFoundError:
        return [], []
    except OSError as problem:
        raise SessionError(
            f"{folder} cannot be read: {problem.strerror}.", how_to_read(problem)
        ) from None
    regular = [path for path in named if path.is_file()]
    return regular, sorted({*named} - {*regular})


def _find(folder: Path, wanted: str, *, min_characters: int = 1) -> Path:
    paths, _ = _paths(folder)
    by_id = {path.stem: path for path in paths}
    if wanted in by_id:
        return by_id[wanted]
    fitting = [name for name in by_id if wanted and name.startswith(wanted)]
    if fitting and len(wanted) < min_characters:
        raise SessionError(
            f"'{wanted}' is too little of an id to delete by.",
            f"Give the whole id, or at least {min_characters} characters of it.",
        )
    if len(fitting) == 1:
        return by_id[fitting[0]]
    if fitting:
        raise SessionError(
            f"'{wanted}' fits {len(fitting)} sessions: {', '.join(fitting[:5])}.",
            "Give more of the id.",
        )
    hint = nearest(wanted, by_id) if 0 < len(by_id) < 10 else "See 'qwen38 sessions list'."
    raise SessionError(f"There is no session '{wanted}' in {folder}.", hint)


def _hold(path: Path, what: str) -> LogFile:
    """Lock a session that is about to be ``what``: deleted, renamed."""
    log = LogFile(path)
    try:
        is_held = log.lock()
    except OSError as problem:
        raise _refused(path, what, problem) from None
    if not is_held:
        raise SessionError(
            f"The session {path.stem} is open in another window or in this one.",
            "Leave it there first, such as with /new.",
        )
    return log


def _refused(path: Path, what: str, problem: OSError) -> SessionError:
    return SessionError(
        f"{path} cannot be {what}: {problem.strerror}.",
        "Allow yourself to write to its folder, or check the disk.",
    )


def _lock(log: LogFile) -> str:
    try:
        if log.lock():
            return ""
    except OSError as problem:
        return f"{log.path} cannot be written ({problem.strerror}); what you add goes into a copy."
    return "This conversation is open in another window; what you add here goes into a copy."


def _read(path: Path) -> tuple[Contents, list[str]]:
    try:
        lines, num_damaged = read_lines(read_own(path, MAX_SESSION_BYTES))
    except OSError as problem:
        raise SessionError(
            f"{path} does not read: {problem.strerror}.", how_to_read(problem)
        ) from None
    contents = read_contents(path.stem, lines)
    if not contents.created and not contents.messages:
        raise SessionError(f"{path} is no session of this program.", "See 'qwen38 sessions list'.")
    if contents.newer_format:
        raise SessionError(
            f"{path} has the format {contents.newer_format}, expected {FORMAT} at most.",
            "A newer version of this program wrote it; go on with it there.",
        )
    warnings: list[str] = []
    if num_bad := num_damaged + contents.num_foreign:
        warnings.append(
            f"{counted(num_bad, 'damaged line')} of {path.name} could not be read; "
            "everything else is here."
        )
    num_unfinished, num_moved = contents.mend()
    if num_moved:
        some = counted(num_moved, "message")
        warnings.append(f"{some} had lost the place, and each follows the message before it.")
    if num_unfinished:
        warnings.append("The last answer was cut off; what had been saved of it is here.")
    return contents, warnings
