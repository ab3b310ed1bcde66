"""How a failure ends the program: one sentence on stderr, one exit code, no traceback.

Exit codes, for scripts:

====  ============================================================
   0  done
   1  failed: a check is red, a disk refused, something broke
   2  bad usage: an option, a setting, a profile or a request
   3  no model: the checkpoint is missing, damaged or foreign, or its chat template refuses
   4  memory: the model does not fit on this machine
 130  interrupted by Ctrl-C (128 + signal for other signals)
 141  whoever read our output went away
====  ============================================================
"""

import errno
import os
import sys
import traceback
from datetime import UTC, datetime
from pathlib import Path

from app.paragraph import cells_of, in_rows
from app.visible import visible
from engine.errors import (
    CancelledError,
    CheckpointError,
    EngineError,
    MemoryPlanError,
    ProfileError,
    RequestError,
    SettingsError,
    TemplateError,
)

OK, FAILED, BAD_USAGE, NO_MODEL, NO_MEMORY, INTERRUPTED, BROKEN_PIPE = 0, 1, 2, 3, 4, 130, 141

_CODES: tuple[tuple[type[EngineError], int], ...] = (
    (SettingsError, BAD_USAGE),
    (ProfileError, BAD_USAGE),
    (RequestError, BAD_USAGE),
    (CheckpointError, NO_MODEL),
    (TemplateError, NO_MODEL),
    (MemoryPlanError, NO_MEMORY),
    (CancelledError, INTERRUPTED),
)

_REFUSALS = (
    *(errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EACCES, errno.EPERM, errno.EFBIG),
    *(errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN),
    *(errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR, errno.EISDIR),
)
"""What a healthy program meets on a full, worn or guarded machine, and names that are no files."""

_LINE_SIGNS = str.maketrans({"\n": "␊", "\t": "␉"})


def exit_code(error: BaseException) -> int:
    """The exit code that tells a script what kind of failure ``error`` is."""
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    if isinstance(error, BrokenPipeError):
        return BROKEN_PIPE
    return next((code for kind, code in _CODES if isinstance(error, kind)), FAILED)


def report(error: BaseException, log_folder: Path) -> int:
    """Say on stderr what ended the program and return its exit code.

    An error that nobody foresaw is one line with the file that holds its traceback.
    """
    code = exit_code(error)
    if code == BROKEN_PIPE:
        silence_stdout()
    elif isinstance(error, KeyboardInterrupt):
        say("Interrupted.")
    elif isinstance(error, EngineError):
        say(f"{error.title}: {error}")
    elif isinstance(error, OSError) and error.errno in _REFUSALS:
        where = f" ({error.filename})" if error.filename else ""
        say(f"System: {error.strerror}{where}.")
    else:
        say(f"Something broke: {one_line(error)}. {_keep_traceback(error, log_folder)}")
    return code


def one_line(error: BaseException) -> str:
    """An unforeseen error as one line: its kind and the first line of its message."""
    first = str(error).strip().split("\n")[0]
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def say(sentence: str) -> None:
    """Write one line for the person to stderr, whatever foreign text it quotes.

    A terminal that is too narrow for it gets it broken between words. A stderr that is gone is no
    reason to fail.
    """
    line = sentence.translate(_LINE_SIGNS)
    cells = cells_of(sys.stderr)
    say_lines("\n".join(in_rows(line, cells)) if cells else line)


def say_lines(text: str) -> None:
    """Write lines of our own to stderr, such as a help text."""
    if sys.stderr is None:  # pyright: ignore[reportUnnecessaryComparison]  closed with 2>&-
        return
    try:
        sys.stderr.write(visible(text) + "\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        return


def leave_stdout() -> bool:
    """Flush stdout, so that the interpreter need not; False when it cannot be written."""
    if sys.stdout is None:  # pyright: ignore[reportUnnecessaryComparison]  closed with 1>&-
        return True
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        silence_stdout()
        return False
    return True


def silence_stdout() -> None:
    """Let the interpreter's last flush go nowhere: the reader of stdout is gone."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)


def _keep_traceback(error: BaseException, folder: Path) -> str:
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    path = folder / f"crash-{stamp}-{os.getpid()}.log"
    text = "".join(traceback.format_exception(error))
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.write_text(text, encoding="utf-8", errors="backslashreplace")
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or "no such place"
        return f"Its log could not be written to {path} ({reason})."
    return f"The details are in {path}."
