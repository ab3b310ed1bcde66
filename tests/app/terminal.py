"""A program on a pseudo-terminal of its own, below a shell that outlives it, as in real life."""

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from pathlib import Path

from tests.tries import PATIENCE_S

SHELL = 'trap : INT TERM HUP; "$@"; echo "<<exit $?>>"; trap - HUP; while :; do sleep 60; done'
"""The traps keep the shell alive; a trap that runs a command is reset in its children."""


class Terminal:
    """Use as a context manager; ``command`` runs on a terminal of ``columns`` x ``rows``."""

    def __init__(self, command, environment, cwd, columns=80, rows=24):
        self.master, slave = pty.openpty()
        self.resize(columns, rows)
        self.before = termios.tcgetattr(self.master)
        self.output = b""
        self.shell = subprocess.Popen(
            ["/bin/sh", "-c", SHELL, "sh", *command],
            stdin=slave, stdout=slave, stderr=slave, env=environment, cwd=cwd,
            start_new_session=True,
            preexec_fn=_begin,  # noqa: PLW1509  no threads yet
        )  # fmt: skip
        os.close(slave)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for pid in self.family():
            _kill(pid)
        self.shell.kill()
        self.shell.wait()
        os.close(self.master)

    def resize(self, columns, rows):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text):
        os.write(self.master, text.encode())

    def wait_for(self, pattern, timeout=PATIENCE_S):
        """Read until ``pattern`` is in what came since the last call that matched."""
        end = time.monotonic() + timeout
        while (match := re.search(pattern.encode(), self.output, re.DOTALL)) is None:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.master], [], [], left)[0]:
                raise AssertionError(f"no {pattern!r} in {self.output[-2000:]!r}")
            self.output += os.read(self.master, 65536)
        seen, self.output = self.output[: match.end()], self.output[match.end() :]
        return seen.decode("utf-8", "replace")

    def exit_code(self):
        """Wait for the program's end; returns what it wrote until then, and its exit code."""
        seen = self.wait_for(r"<<exit \d+>>")
        return seen, int(re.findall(r"<<exit (\d+)>>", seen)[-1])

    def is_as_before(self):
        """Whether the terminal's modes are those of the start."""
        return termios.tcgetattr(self.master) == self.before

    def family(self):
        """Pids below the shell, the launcher first, its child after it."""
        found, todo = [], [self.shell.pid]
        while todo:
            pid = todo.pop(0)
            path = Path(f"/proc/{pid}/task/{pid}/children")
            children = [int(one) for one in path.read_text().split()] if path.exists() else []
            found += children
            todo += children
        return found


def state_of(pid):
    """The state letter of a process, such as R, S or T; empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return ""


def wait_until(condition, timeout=PATIENCE_S):
    end = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.02)


def _kill(pid):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, 9)


def _begin() -> None:
    """Take the terminal, and every signal again: what runs the tests may ignore some (nohup)."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGTSTP):
        signal.signal(number, signal.SIG_DFL)
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
