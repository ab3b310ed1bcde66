"""The entry of ``qwen38``: interrupted at any moment, it ends with a sentence and no traceback.

It imports nothing of ours before it answers to Ctrl-C; `app.command_line` holds the commands.
"""

import contextlib
import os
import signal
import sys
from types import FrameType
from typing import NoReturn


def main() -> None:
    """Run the command line and exit."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:  # whoever ignores the signal goes on to do so
        signal.signal(signal.SIGINT, _end_at_once)
    from app.command_line import run_command_line

    signal.signal(signal.SIGINT, before)
    sys.exit(run_command_line(sys.argv[1:]))


def _end_at_once(number: int, _frame: FrameType | None) -> NoReturn:
    """End while modules load: an exception may be lost in there, and nothing is open yet."""
    with contextlib.suppress(OSError):  # closed with 2>&-
        os.write(2, b"Interrupted.\n")
    os._exit(128 + number)
