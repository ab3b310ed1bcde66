"""Drive the rendering process: one request at a time, within bounds of time and size."""

import json
import selectors
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path
from typing import IO, cast

from engine.errors import TemplateError

RENDER_SECONDS = 10.0
"""Longest time for a rendering: a long conversation takes milliseconds, the start 0.2 s."""

REPLY_GROWTH_BYTES = 12 << 20
"""Bytes a reply may have beyond twice its request: JSON of what a rendering may grow by."""

OTHER = "Use the chat_template.jinja that came with the model."

_PROGRAM = Path(__file__).with_name("render_process.py")


class Renderer:
    """Renders templates in a process of its own, which starts on first use.

    A template that does not end, or wants too much memory, is ended with its process; the next
    rendering starts a fresh one. Safe to use from several threads.

    Args:
        seconds: longest time for one rendering.
    """

    def __init__(self, seconds: float = RENDER_SECONDS) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._stop: weakref.finalize[..., Renderer] | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the process without waiting for it, so that the first rendering need not."""
        with self._lock:
            self._start()

    def render(self, source: str, variables: dict[str, object] | None) -> str:
        """Render ``source``.

        Args:
            source: a jinja2 template.
            variables: JSON values that it reads by name; None compiles the template only.

        Raises:
            TemplateError: the template raises, touches what the sandbox forbids, does not end in
                time, or wants too much memory.
        """
        request = json.dumps({"source": source, "variables": variables}).encode() + b"\n"
        with self._lock:
            reply = self._exchange(request)
        if "text" not in reply:
            raise TemplateError(f"The chat template failed: {reply.get('error')}.", OTHER)
        return reply["text"]

    def close(self) -> None:
        """End the process."""
        if self._stop is not None:
            self._stop()
        self._stop = self._process = None

    def _exchange(self, request: bytes) -> dict[str, str]:
        process = self._start()
        try:
            line = _exchange_lines(process, request, time.monotonic() + self._seconds)
        except TimeoutError:
            self.close()
            raise TemplateError(
                f"The chat template did not end within {self._seconds:g} s.", OTHER
            ) from None
        except (OSError, EOFError):
            self.close()
            raise TemplateError(
                "The chat template ended its process: it wants too much.", OTHER
            ) from None
        except BaseException:
            self.close()  # a reply still on its way would answer the next request
            raise
        return cast("dict[str, str]", json.loads(line))

    def _start(self) -> "subprocess.Popen[bytes]":
        if self._process is None or self._process.poll() is not None:
            self.close()
            self._process = subprocess.Popen(
                [sys.executable, "-I", str(_PROGRAM)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                env={},
                start_new_session=True,
            )
            self._stop = weakref.finalize(self, _end, self._process)
        return self._process


def _exchange_lines(process: "subprocess.Popen[bytes]", request: bytes, deadline: float) -> bytes:
    """Write a line and read one, which must be whole by ``deadline``.

    The process reads a whole line before it does anything, so that the write cannot wait for ever.
    """
    stdin, stdout = cast("IO[bytes]", process.stdin), cast("IO[bytes]", process.stdout)
    rest = memoryview(request)
    while rest:
        rest = rest[stdin.write(rest) :]
    reply = bytearray()
    max_bytes = REPLY_GROWTH_BYTES + 2 * len(request)
    with selectors.DefaultSelector() as selector:
        selector.register(stdout, selectors.EVENT_READ)
        while not reply.endswith(b"\n"):
            if not selector.select(max(0.0, deadline - time.monotonic())):
                raise TimeoutError
            part = stdout.read(1 << 20)
            if not part or len(reply) > max_bytes:
                raise EOFError
            reply += part
    return bytes(reply)


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    for pipe in (process.stdin, process.stdout):
        cast("IO[bytes]", pipe).close()
    process.wait()
