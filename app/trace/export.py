"""Write a trace for Perfetto: one event a line, packed when the name ends in .gz."""

import gzip
import json
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from app.output_file import check_output, new_name, whole_file
from app.report import say
from app.sessions.session import Session
from app.trace.chrome import ChromeLayout
from app.trace.read import TraceReader, read_turns
from app.trace.record import Recorder
from app.trace.traced import TracedTurn, TraceError
from engine.errors import EngineError, OutputError, RequestError, how_to_write
from engine.settings.environment import expanded

ENDINGS = (".json", ".json.gz")
HOW_TO_OPEN = "Open it at https://ui.perfetto.dev or with 'qwen38 trace'."

_encode = json.JSONEncoder(ensure_ascii=True, separators=(",", ":")).encode


def check_target(option: str, path: Path) -> None:
    """Refuse a file that a trace could not be written to, before anything is recorded for it.

    Raises:
        RequestError: the name has another ending, or is no name for a file in an existing folder.
        OutputError: the folder or the file may not be written.
    """
    if not path.name.endswith(ENDINGS):
        raise RequestError(
            f"{option} is '{path}', expected a name that ends in {' or '.join(ENDINGS)}."
        )
    check_output(option, path)


def export(
    turns: Iterable[TracedTurn], target: Path, *, replace: bool = False, gap: str = ""
) -> int:
    """Write turns as a Chrome trace, whole or not at all; returns how many there were.

    Args:
        turns: what was recorded.
        target: where to.
        replace: put it in the place of a file that is there.
        gap: why the disk refused some of them, if it did.

    Raises:
        TraceError: there are none, or a source does not read.
        OutputError: the file exists (unless ``replace``) or cannot be written.
    """
    num_turns = 0

    def counted() -> Iterator[TracedTurn]:
        nonlocal num_turns
        for num_turns, turn in enumerate(turns, start=1):  # noqa: B007  it is what we return
            yield turn
        if not num_turns:
            raise _nothing_recorded(gap)

    try:
        with whole_file(target, replace=replace) as file:
            if not target.name.endswith(".gz"):
                file.writelines(document(counted()))
            else:
                with gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=0) as packed:
                    packed.writelines(document(counted()))
    except FileExistsError:
        raise OutputError(f"{target} exists already.", "Give another name.") from None
    except OSError as problem:
        raise OutputError(
            f"{target} cannot be written: {problem.strerror}.", how_to_write(problem)
        ) from None
    return num_turns


def _nothing_recorded(gap: str) -> TraceError:
    if not gap:
        return TraceError("There is no answer to trace yet.", "Send a message first.")
    return TraceError(
        f"Nothing could be recorded ({gap}), so that there is no trace to write.",
        "Make room there, or give paths.data on another disk.",
    )


def document(turns: Iterable[TracedTurn]) -> Iterator[bytes]:
    """The file piece by piece; one turn is held at a time."""
    layout = ChromeLayout()
    yield b'{"displayTimeUnit":"ms","traceEvents":[\n'
    yield b",\n".join(_encode(one).encode() for one in layout.names())
    for turn in turns:
        for event in layout.events(turn):
            yield b",\n" + _encode(event).encode()
    yield b'\n],"metadata":' + _encode(layout.metadata()).encode() + b"}\n"


def export_present(recorder: Recorder | None, session: Session, wanted: str) -> Path:
    """Write the trace of a conversation as it is now; returns the file.

    Args:
        recorder: None when nothing is recorded.
        session: the conversation; its next answer is recorded beside it.
        wanted: the file's name; empty for one with the time in it, in the working folder.

    Raises:
        RequestError: there is nothing to write, or it cannot be written.
    """
    if recorder is None:
        raise TraceError("The trace is off.", "Start with --set trace.enabled=on.")
    path = expanded(wanted or new_name("qwen38-trace", ".json.gz"))
    recorder.follow(session.trace_path)
    sources = recorder.sources(whole=True)
    try:
        check_target("/trace", path)
        turns = (turn for one in sources for turn in TraceReader(one).turns())
        export(turns, path, gap=recorder.problem)
    except OutputError as error:  # a chat that cannot write its output ends; this is none of it
        raise TraceError(error.message, error.mend) from None
    return path.absolute()


@contextmanager
def exported_at_the_end(recorder: Recorder, target: Path | None) -> Generator[None]:
    """However the block ends, write this run's trace to ``target`` (None: nowhere) and clean up.

    Raises:
        EngineError: the trace cannot be written; only said where the block failed itself.
    """
    is_whole = False
    try:
        yield
        is_whole = True
    finally:
        try:
            if target is not None:
                _export_run(recorder, target)
        except EngineError as error:
            if is_whole:
                raise
            say(f"{error.title}: {error}")
        finally:
            recorder.close()


def _export_run(recorder: Recorder, target: Path) -> None:
    sources = recorder.sources(whole=False)
    if not sources and not recorder.problem:
        say("Nothing was answered, so that there is no trace to write.")
        return
    export(read_turns(sources), target, replace=True, gap=recorder.problem)
    say(f"The trace is in {target.absolute()}. {HOW_TO_OPEN}")
