"""The loop of the plain chat: read a message or a command, answer, keep."""

import sys

from app.attached import Outgoing, attach
from app.commands.sessions import store_of
from app.interrupt import EndOnSignal
from app.live import LiveSettings
from app.opening import Opener, Plan, request_of
from app.own_command import own_command
from app.plain.answer import Outcome, stream_answer
from app.plain.commands import act
from app.plain.line_prompt import LineReader
from app.plain.loading import load
from app.plain.prompt import EditingReader, Reader
from app.plain.spoken import FIRST_LINE
from app.plain.spoken import PROMPT as SPOKEN_PROMPT
from app.plain.state import PlainState
from app.profile_menu import ProfileMenu
from app.report import FAILED, OK, exit_code, say
from app.sessions.history import PromptHistory
from app.slash import message_text, parse_slash
from app.streams import is_terminal
from app.trace.record import Recorder
from engine.errors import EngineError, RequestError
from engine.settings import environment
from engine.types import ChatEngine


def run_plain(chosen: Plan, session_id: str | None, recorder: Recorder) -> int:
    """Chat until the person leaves; returns the exit code."""
    opener = recorder.wrap(chosen.open)
    spoken = chosen.settings.chat.a11y
    if spoken:
        say(FIRST_LINE)
    with EndOnSignal() as ends:
        engine = load(opener, spoken=spoken)
        try:
            state = _state(chosen, session_id, engine, opener, recorder)
        except BaseException:
            engine.close()
            raise
        try:
            return talk(state, _reader(state, ends))
        finally:
            state.session.close()
            state.store.close()
            state.engine.close()


def _state(
    chosen: Plan, session_id: str | None, engine: ChatEngine, opener: Opener, recorder: Recorder
) -> PlainState:
    store = store_of(chosen.settings)
    system = chosen.settings.chat.system
    session = (
        store.open(session_id)
        if session_id
        else store.create(engine.info.model, engine.info.profile, system)
    )
    history = PromptHistory(chosen.settings.state_dir / "history.jsonl")
    live = LiveSettings.of(chosen.sources)
    state = PlainState(engine, opener, store, session, live, history, recorder, ProfileMenu(chosen))
    state.adopt(session)
    return state


def talk(state: PlainState, reader: Reader) -> int:
    """Read and answer until the end of input, /quit, or a signal that ends the program.

    Returns:
        The exit code; of lines from a pipe that of the first that failed.
    """
    info = state.engine.info
    say(f"{info.model}, profile {info.profile}, {info.device}. /help shows the commands.")
    if state.session.messages:
        say(f"Going on with: {state.session.title}")
    state.tell_warnings()
    worst = OK
    while True:
        line = reader.read(state.session.draft)
        if line is None:
            break
        try:
            outcome = _take(state, line)
        except EngineError as error:
            if error.title == "Output":
                raise
            say(f"{error.title}: {error}")
            worst = worst or exit_code(error)
            continue
        finally:
            state.tell_warnings()
        if outcome is None:
            break
        if outcome.ends_program:
            return outcome.exit_code
        worst = worst or outcome.exit_code
    if not _is_kept(state):
        return FAILED
    return OK if is_terminal(sys.stdin) else worst  # a script wants to know, a person has seen it


def _is_kept(state: PlainState) -> bool:
    """Say what became of the conversation; False when the disk refused it."""
    session = state.session
    if not session.is_saved:
        say(f"The conversation was not saved: {session.disk_problem} ({session.path}).")
        return False
    if session.messages and state.settings.chat.save:
        say(f"The conversation is kept: {own_command()} chat --resume {session.id}")
    return True


def send(state: PlainState, outgoing: Outgoing) -> Outcome:
    """Add a message to the conversation and answer it."""
    before = state.session.leaf
    state.session.add_message("user", outgoing.content, files=outgoing.files)
    return answer(state, before)


def answer(state: PlainState, before: str, *, goes_on: bool = False) -> Outcome:
    """Answer the end of the current branch; refused, the conversation goes on from ``before``.

    ``goes_on``: an answer stands there already, and is to go on.
    """
    session = state.session
    info = state.engine.info
    live, state.once = state.once or state.live, None
    request = request_of(live.settings, info, session.request_messages())
    writer = (
        session.go_on()
        if goes_on
        else session.start_answer(model=info.model, made_with=live.in_force())
    )
    if state.recorder is not None:
        state.recorder.follow(session.trace_path)
    outcome = stream_answer(
        state.engine, request, writer, state.settings.chat.show_thinking,
        spoken=state.settings.chat.a11y,
    )  # fmt: skip
    if outcome.is_refused:
        session.select(before)
    return outcome


def _take(state: PlainState, line: str) -> Outcome | None:
    """Take one line; None means leave."""
    if not line.strip():
        return Outcome(OK)
    found = parse_slash(line)
    if found is None or found[0].name != "delete":
        state.asked_to_delete = ""
    if found is None:
        outcome = send(state, _outgoing(state, line))
        state.session.draft = line if outcome.is_refused else ""
        return outcome
    state.session.draft = ""
    before = state.session.leaf
    step = act(state, *found)
    if step == "leave":
        return None
    if step == "prompt":
        return Outcome(OK)
    return answer(state, before, goes_on=step == "go on")


def _outgoing(state: PlainState, line: str) -> Outgoing:
    """What a line sends; what its files cost is said first. One that does not read is the draft."""
    try:
        found = attach(message_text(line))
    except RequestError:
        state.session.draft = line
        raise
    for one in found.files:
        num_tokens = state.engine.text_tokens(found.content[one.start : one.end])
        say(f"{one.name}: {num_tokens:,} tokens.")
    return found


def _reader(state: PlainState, ends: EndOnSignal) -> Reader:
    can_edit = is_terminal(sys.stdin) and is_terminal(sys.stdout)
    if state.settings.chat.a11y:
        return LineReader(ends, SPOKEN_PROMPT)
    if not can_edit or environment.terminal_name() in ("dumb", "unknown"):
        return LineReader(ends)

    def keep_draft(text: str) -> None:
        state.session.draft = text

    return EditingReader(ends, state.history, keep_draft)
