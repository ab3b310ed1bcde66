"""Records what the engine does while it does it. Nothing in here can end or delay an answer.

`TracedEngine` stands in front of the engine and hands each event on; `Recorder` says into which
file it goes. Events are stamped in the engine's thread when they leave the engine, which has
waited for its device by then; rounds and turns carry the engine's own times.
"""

import secrets
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from app.opening import Opener
from app.trace.disk import TraceFile
from app.trace.facts import facts_of, request_facts
from app.trace.lines import (
    Line,
    chunk_line,
    end_line,
    head_line,
    notice_line,
    round_line,
    text_line,
    to_bytes,
    turn_line,
)
from app.trace.read import Source
from app.trace.traced import Head, TraceError
from app.wrapped_engine import WrappedEngine
from engine.settings.declared import Settings
from engine.types import (
    ChatEngine,
    EngineInfo,
    Event,
    LoadProgressed,
    NoticeRaised,
    PromptProgressed,
    Request,
    RoundEnded,
    TextArrived,
    TurnEnded,
)


class Recorder:
    """Where this process records, and what it has recorded.

    One thread records. Another may say where the next turn goes (`follow`) and read what is there
    (`sources`).

    Args:
        settings: ``trace`` and ``chat.save`` are read; all are written into the trace.
        is_on: record although ``trace.enabled`` is off, or not although it is on.
    """

    def __init__(self, settings: Settings, *, is_on: bool | None = None) -> None:
        self._settings = settings
        self.is_on = settings.trace.enabled if is_on is None else is_on
        self.keeps_text = settings.trace.keep_text
        self._began_s = time.perf_counter()
        self._at = datetime.now(UTC).isoformat(timespec="microseconds")
        self._run = secrets.token_hex(4)
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._path: Path | None = None
        self._file: TraceFile | None = None
        self._head: Head | None = None
        self._offsets: dict[Path, int] = {}
        self._lock = threading.Lock()
        self._is_lost = False
        self._problem = ""
        self._is_told = False

    def wrap(self, open_engine: Opener) -> Opener:
        """An opener whose engine is recorded; the same one when recording is off."""
        if not self.is_on:
            return open_engine

        def opened(
            on_progress: Callable[[LoadProgressed], None], cancel: threading.Event
        ) -> ChatEngine:
            return TracedEngine(open_engine(on_progress, cancel), self)

        return opened

    def follow(self, path: Path) -> None:
        """Record the next turns into ``path``, or nowhere for long when no conversation is kept."""
        self._path = path

    def sources(self, *, whole: bool) -> list[Source]:
        """What was recorded, up to now.

        Args:
            whole: the file that is followed, with all its runs; else this run in all its files.

        Raises:
            TraceError: recording is off, or there is nowhere to record.
        """
        if not self.is_on:
            raise TraceError("The trace is off.", "Start with --set trace.enabled=on.")
        self.flush()
        if not whole:
            return [Source(path, offset) for path, offset in self._offsets.items()]
        try:
            path = self._target()
        except OSError as problem:
            raise TraceError(
                f"There is nowhere to record: {problem.strerror}.", "Make room for temporary files."
            ) from None
        return [Source(path)] if path.exists() else []

    def close(self) -> None:
        """Write what waits, and let go of the files."""
        with self._lock:
            if self._file is not None:
                self._file.close()
                self._file = None
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    # the engine's thread

    def facts_head(self, info: EngineInfo) -> Head:
        """What stands above this run."""
        facts = facts_of(info, self._settings, keep_text=self.keeps_text)
        return Head(self._run, self._at, facts)

    def begin(self, head: Head, request: Request, began_s: float) -> None:
        """Begin a turn that came at ``began_s`` of ``time.perf_counter``."""
        prompt = request.messages[-1].content if self.keeps_text and request.messages else ""
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._is_lost = False
        with self._lock, self._guarded():
            self._open(head)
        self.write(turn_line(began_s - self._began_s, at, request_facts(request), prompt))

    def write(self, line: Line) -> None:
        """Take a line of the turn; the rest of a turn that the disk refused is passed over."""
        data = to_bytes(line)
        with self._lock, self._guarded():
            if self._file is not None and not self._is_lost:
                self._file.add(data)

    def flush(self) -> None:
        """Write through what waits."""
        with self._lock, self._guarded():
            if self._file is not None:
                self._file.flush()

    @property
    def problem(self) -> str:
        """Which file was refused last, and why; empty where none was."""
        return self._problem

    def take_problem(self) -> str:
        """Why nothing is recorded, once a process; else empty."""
        if not self._problem or self._is_told:
            return ""
        self._is_told = True
        return f"The timing trace has a gap ({self._problem}). The chat is not affected."

    def _open(self, head: Head) -> None:
        """Go to the file of the next turn; its head stands there before anything else.

        Another model in the same run is another head.
        """
        path = self._target()
        if self._file is not None and self._file.path == path and self._head is head:
            return
        if self._file is not None:
            self._file.close()
            self._file = None
        offset = path.stat().st_size if path.exists() else 0
        file = TraceFile(path, self._settings.trace.max_mb << 20)
        try:
            file.add(to_bytes(head_line(head)))
            file.flush()
        except OSError:
            file.close()
            raise
        self._file, self._head = file, head
        self._offsets.setdefault(path, offset)

    @contextmanager
    def _guarded(self) -> Generator[None]:
        """A disk that refuses costs the rest of the turn's trace, and a notice."""
        try:
            yield
        except OSError as problem:
            self._is_lost = True
            self._problem = f"{problem.filename or self._path or 'its file'}: {problem.strerror}"

    def _target(self) -> Path:
        """The file that is followed, or one that goes away with this process."""
        if self._path is not None and self._settings.chat.save:
            return self._path
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="qwen38-trace-")
        return Path(self._folder.name) / (self._path.name if self._path is not None else "run")


class TracedEngine(WrappedEngine):
    """An engine whose events are recorded.

    Args:
        engine: answers.
        recorder: takes the lines.
    """

    def __init__(self, engine: ChatEngine, recorder: Recorder) -> None:
        super().__init__(engine)
        self._recorder = recorder
        self._info = engine.info
        self._head = recorder.facts_head(self._info)

    def generate(self, request: Request, stop: threading.Event) -> Iterator[Event]:
        """Answer ``request``; see ``engine.types.ChatEngine``.

        A trouble of the recording is one more notice, never an error.
        """
        recorder = self._recorder
        if self.info != self._info:  # what was measured since
            self._info = self.info
            self._head = recorder.facts_head(self._info)
        stamp = _Stamp(keeps_text=recorder.keeps_text)
        has_begun = False
        try:
            for event in self.engine.generate(request, stop):
                if not has_begun:  # a request that is refused leaves no turn
                    recorder.begin(self._head, request, stamp.began_s)
                    has_begun = True
                if (line := stamp.line(event)) is not None:
                    recorder.write(line)
                if isinstance(event, TurnEnded):
                    recorder.flush()
                if problem := recorder.take_problem():
                    yield NoticeRaised(problem)
                yield event
        finally:
            recorder.flush()


class _Stamp:
    """Turns the events of one turn into lines."""

    def __init__(self, *, keeps_text: bool) -> None:
        self.began_s = time.perf_counter()
        self._keeps_text = keeps_text
        self._read_until_s: float | None = None

    def line(self, event: Event) -> Line | None:
        """The line for an event that happened just now; None for one that leaves none."""
        match event:
            case RoundEnded(record):
                return round_line(record)
            case TextArrived(text, channel):
                return text_line(self._now_s(), channel, text) if self._keeps_text else None
            case PromptProgressed():
                return self._chunk(event)
            case NoticeRaised(text):
                return notice_line(self._now_s(), text)
            case TurnEnded(record):
                return end_line(record, keep_text=self._keeps_text)

    def _chunk(self, event: PromptProgressed) -> Line:
        """The chunk that ended now; the engine's rate says when the first one began."""
        end_s = self._now_s()
        start_s = self._read_until_s
        if start_s is None:
            num_read = event.num_tokens - event.num_reused
            start_s = max(end_s - num_read / event.tok_s, 0.0) if event.tok_s else end_s
        self._read_until_s = end_s
        return chunk_line(event, start_s, end_s)

    def _now_s(self) -> float:
        return time.perf_counter() - self.began_s
