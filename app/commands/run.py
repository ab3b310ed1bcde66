"""``qwen38 run``: one answer to stdout, or one JSON record; everything else goes to stderr."""

import json
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from app.attached import FileText, read_file, with_files
from app.commands import options
from app.interrupt import StopOnSignal
from app.opening import Opener, plan, request_of
from app.output_file import check_output
from app.report import FAILED, OK, say
from app.stats import stats_line
from app.streams import (
    LoadLine,
    decode_input,
    is_piped_in,
    is_terminal,
    read_bounded,
    read_prompt,
    reading_shown,
    stdin_bytes,
    write_data,
)
from app.trace.export import check_target, exported_at_the_end
from app.trace.record import Recorder
from engine.errors import RequestError, how_to_read
from engine.records import TurnRecord
from engine.settings.declared import Settings
from engine.settings.environment import expanded
from engine.types import (
    ChatEngine,
    EngineInfo,
    Message,
    NoticeRaised,
    Request,
    TextArrived,
    TurnEnded,
)

STDIN = Path("-")


def run(
    prompt: Annotated[
        str | None, typer.Argument(help="The message; without it stdin is read.", metavar="PROMPT")
    ] = None,
    *,
    as_json: options.Json = False,
    seed: Annotated[int | None, typer.Option(help="Seed of the draws.", metavar="N")] = None,
    max_tokens: Annotated[
        int | None, typer.Option(help="Longest answer, in tokens.", metavar="N")
    ] = None,
    temperature: Annotated[float | None, typer.Option(help="0 is greedy.", metavar="N")] = None,
    drafter: Annotated[
        str | None, typer.Option(help="Who proposes: auto, off, mtp, lookup, ...", metavar="NAME")
    ] = None,
    draft_shape: Annotated[
        str | None, typer.Option(help="auto, chain or tree.", metavar="NAME")
    ] = None,
    draft_tokens: Annotated[
        int | None, typer.Option(help="Proposals a round, 1 to 31.", metavar="N")
    ] = None,
    profile: options.Profile = None,
    model: options.Model = None,
    device: options.Device = None,
    system: options.System = None,
    read: Annotated[
        list[str] | None,
        typer.Option(
            help="Send a file along below PROMPT, - is what is piped in; again for more.",
            metavar="FILE",
        ),
    ] = None,
    ids: Annotated[
        Path | None,
        typer.Option(
            help="Token ids to feed as they are: JSON list or words; - is stdin.", metavar="FILE"
        ),
    ] = None,
    logits: Annotated[
        Path | None,
        typer.Option(help="Write the fp32 logits of every new token.", metavar="FILE.safetensors"),
    ] = None,
    no_thinking: Annotated[bool, typer.Option("--no-thinking", help="Answer at once.")] = False,
    thinking_budget: options.ThinkingBudget = None,
    trace: options.Trace = None,
    sets: options.Sets = None,
) -> int:
    """Answer one prompt on stdout."""
    given: dict[str, object] = {
        "sampling.seed": seed,
        "sampling.max_tokens": max_tokens,
        "sampling.temperature": temperature,
        "draft.drafter": drafter,
        "draft.shape": draft_shape,
        "draft.tokens": draft_tokens,
        "model.profile": profile,
        "model.dir": model,
        "model.device": device,
        "chat.system": system,
        "chat.thinking": False if no_thinking else None,
        "chat.thinking_budget": thinking_budget,
    }
    _check_ids(ids, prompt, system, read, no_thinking=no_thinking)
    if logits is not None:
        check_output("--logits", logits, ".safetensors")
    if trace is not None:
        check_target("--trace", trace)
    chosen = plan(options.as_settings(given, sets))
    prompt_ids = read_ids(ids) if ids else None
    text = "" if prompt_ids else _message(prompt, read or ())
    recorder = Recorder(chosen.settings, is_on=trace is not None)
    with (
        StopOnSignal() as interrupt,
        exported_at_the_end(recorder, trace),
        _opened(recorder.wrap(chosen.open), interrupt) as engine,
    ):
        request = _request(chosen.settings, engine.info, text, prompt_ids)
        request = replace(request, keep_logits=logits is not None)
        if request.drafter == "replay":
            request = _with_replay(engine, request, interrupt)
        record = _answer(engine, request, interrupt, is_shown=not as_json)
        code = _end(engine.info, request, record, interrupt, as_json=as_json)
        if logits is not None:  # after the answer: a disk that refuses loses nothing
            from engine.logits import write_logits

            write_logits(record, logits)
        return code


def read_ids(path: Path) -> tuple[int, ...]:
    """Token ids from a file: a JSON list, or numbers between white space.

    Raises:
        RequestError: the file is missing, does not read, is too long, or holds anything else.
    """
    data = _read_ids_file(path)
    try:
        text = data.decode("utf-8").strip()
        values: Any = json.loads(text) if text.startswith("[") else _numbers(text.split())
    except (ValueError, RecursionError):
        values = None
    if not values or not all(type(one) is int and one >= 0 for one in values):
        raise RequestError(
            f"{_name(path)} holds no token ids.",
            "Write whole numbers, none below 0: a JSON list, or words.",
        )
    return tuple(values)


def _numbers(words: list[str]) -> list[int]:
    """Whole numbers in ASCII; Python would take digits of any script, and underscores."""
    if not all(one.isascii() and one.isdigit() for one in words):
        raise ValueError(words)
    return [int(one) for one in words]


def _read_ids_file(path: Path) -> bytes:
    if path == STDIN:
        return read_bounded(stdin_bytes(), "stdin")
    try:
        with expanded(path).open("rb") as file:
            return read_bounded(file, str(path))
    except FileNotFoundError:
        raise RequestError(f"The file {path} is missing.", "--ids names a file of ids.") from None
    except OSError as problem:
        raise RequestError(
            f"{path} does not read: {problem.strerror}.", how_to_read(problem)
        ) from None


def _name(path: Path) -> str:
    return "stdin" if path == STDIN else str(path)


def as_record(info: EngineInfo, request: Request, record: TurnRecord) -> dict[str, Any]:
    """The record of a run as plain JSON values."""
    return {
        **record.as_json(),
        "model": info.model,
        "profile": info.profile,
        "device": info.device,
        "arithmetic": info.arithmetic,
        "is_demo": info.is_demo,
        "read_gb_s": info.read_gb_s,
        "read_measured_at": info.read_measured_at,
        "drafter": request.drafter,
        "draft_shape": request.draft_shape,
        "sampling": asdict(request.sampling),
        "max_tokens": request.max_tokens,
        "thinking": request.thinking,
        "thinking_budget": request.thinking_budget,
    }


def _check_ids(ids: Path | None, *others: object, no_thinking: bool) -> None:
    if ids is not None and (no_thinking or any(one is not None for one in others)):
        raise RequestError(
            "--ids feeds tokens as they are, so that no prompt, --system, --read or "
            "--no-thinking goes with it.",
            "Give one or the other.",
        )


def _message(prompt: str | None, read: Sequence[str]) -> str:
    """The prompt, with files and what is piped in below it."""
    takes_stdin = STDIN.name in read
    if takes_stdin and prompt is None:
        raise RequestError(
            "--read - sends what is piped in along below a prompt, and there is none.",
            "Write it behind the command, or leave out --read -.",
        )
    if prompt is not None and not takes_stdin and is_piped_in():
        say("What is piped in is not read beside a prompt: '--read -' sends it along.")
    text = _prompt(prompt)
    return with_files(text, [_file(one) for one in dict.fromkeys(read)]).content


def _file(name: str) -> FileText:
    if name != STDIN.name:
        return read_file(name)
    if is_terminal(sys.stdin):
        raise RequestError(
            "--read - sends what is piped in along, and nothing is.",
            "Pipe a text into the command.",
        )
    return FileText("stdin", read_prompt())


def _prompt(given: str | None) -> str:
    if given is None:
        return read_prompt()
    if not given.strip():
        raise RequestError("The prompt is empty.", "Write something to answer.")
    return decode_input(given.encode("utf-8", "surrogateescape"), "the prompt")


def _request(
    settings: Settings, info: EngineInfo, text: str, prompt_ids: tuple[int, ...] | None
) -> Request:
    system = settings.chat.system
    head = (Message("system", system),) if system else ()
    request = request_of(settings, info, (*head, Message("user", text)))
    return replace(request, messages=(), prompt_ids=prompt_ids) if prompt_ids else request


@contextmanager
def _opened(open_engine: Opener, interrupt: StopOnSignal) -> Generator[ChatEngine]:
    progress = LoadLine()
    try:
        engine = open_engine(progress, interrupt.stop)
    finally:
        progress.clear()
    for notice in engine.info.notices:
        say(notice)
    try:
        yield engine
    finally:
        engine.close()


def _with_replay(engine: ChatEngine, request: Request, interrupt: StopOnSignal) -> Request:
    """Answer without a drafter first: what came out is what the replay will propose."""
    say("Answering once without drafts to have something to replay.")
    plain = replace(request, drafter="off", keep_logits=False)
    record = _answer(engine, plain, interrupt, is_shown=False)
    return replace(request, replay_ids=record.token_ids)


def _answer(
    engine: ChatEngine, request: Request, interrupt: StopOnSignal, *, is_shown: bool
) -> TurnRecord:
    thinks_aloud = is_shown and is_terminal(sys.stderr)
    for event in reading_shown(engine.generate(request, interrupt.stop), "the prompt"):
        match event:
            case TextArrived(text, "answer") if is_shown:
                write_data(text)
            case TextArrived(_, "thinking") if thinks_aloud:
                say("(thinking)")
                thinks_aloud = False
            case NoticeRaised(text):
                say(text)
            case TurnEnded(record):
                return record
            case _:
                pass
    raise RuntimeError("the engine ended a turn without a record")


def _end(
    info: EngineInfo,
    request: Request,
    record: TurnRecord,
    interrupt: StopOnSignal,
    *,
    as_json: bool,
) -> int:
    if as_json:
        write_data(json.dumps(as_record(info, request, record)) + "\n")
    elif not record.text.endswith("\n"):
        write_data("\n")
    if not as_json and is_terminal(sys.stdout):
        say(stats_line(record))
    if record.finish_reason == "error":
        say(f"The answer is cut off: {record.error}")
        return FAILED
    if interrupt.signal:
        say("Stopped; what was written until then is complete.")
    return interrupt.exit_code or OK
