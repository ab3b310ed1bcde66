"""Running the chat from start to farewell: signals, the screen, and what stays on the terminal."""

import asyncio
import signal
import sys
from collections.abc import Mapping, Sequence

from app.live import LiveSettings
from app.opening import Opener
from app.own_command import own_command
from app.profile_menu import ProfileMenu
from app.report import FAILED, OK, say
from app.sessions.history import PromptHistory
from app.sessions.session import Session
from app.sessions.store import SessionStore
from app.trace.record import Recorder
from app.tui.chat import ChatApp
from app.tui.input_bytes import read_bytes_safely
from app.tui.own_keys import read_own_keys
from app.tui.worker import SWITCH_SECONDS, EngineWorker
from app.visible import visible
from engine.settings.declared import Settings
from engine.settings.registry import Resolved
from engine.sizes import counted

LAST = ("", "last")
"""What ``--resume`` without an id stands for."""

_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


def run_chat(
    settings: Settings,
    sources: Mapping[str, Resolved],
    resume: str | None,
    open_engine: Opener,
    recorder: Recorder | None = None,
    prompts: Sequence[str] = (),
    profiles: ProfileMenu | None = None,
) -> int:
    """Run the chat on this terminal and return the exit code.

    Args:
        settings: the settings at the start.
        sources: every setting with where its value came from; ``/set`` changes them.
        resume: an id or its beginning, "" for the last conversation, None for a new one.
        open_engine: loads the model; called in a thread while the screen is up.
        recorder: takes the timing of what that engine answers.
        prompts: sent by themselves, one after the other.
        profiles: what F3 offers; None where no model is opened.

    Returns:
        1 when the disk refused the conversation, 128 + the signal that ended the chat.

    Raises:
        SessionError: the conversation to resume does not exist or does not read.
        SettingsError: the person's own keys are refused.
        Exception: whatever ended the screen unforeseen, once the terminal is as before.
    """
    store = SessionStore(
        settings.data_dir / "sessions", settings.state_dir / "drafts", keep=settings.chat.save
    )
    own_keys = read_own_keys(settings.config_dir)
    session = _resumed(store, resume)
    worker = EngineWorker(recorder.wrap(open_engine) if recorder is not None else open_engine)
    history = PromptHistory(settings.state_dir / "history.jsonl")
    app = ChatApp(
        LiveSettings.of(sources), store, history, worker, session,
        recorder=recorder, prompts=prompts, profiles=profiles, own_keys=own_keys,
    )  # fmt: skip
    read_bytes_safely()
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_SECONDS)
    try:
        asyncio.run(_run(app, mouse=settings.chat.mouse))
    finally:
        sys.setswitchinterval(before)
        worker.close()
        app.chat.close()
        store.close()
    if settings.chat.save:
        _say_farewell(app.chat.session)
    if app.failure is not None:
        raise app.failure
    return app.return_code or (OK if app.chat.session.is_saved else FAILED)


async def _run(app: ChatApp, *, mouse: bool) -> None:
    loop = asyncio.get_running_loop()
    for one in _SIGNALS:
        loop.add_signal_handler(one, app.leave, 128 + one)
    await app.run_async(mouse=mouse)


def _resumed(store: SessionStore, resume: str | None) -> Session | None:
    if resume is None:
        return None
    if resume in LAST:
        latest = store.latest()
        return store.open(latest.id) if latest is not None else None
    return store.open(resume)


def farewell(session: Session) -> str:
    """What stays on the normal screen: where the conversation is and how to go on with it."""
    records = [one.record for one in session.messages.values() if one.record is not None]
    tokens = sum(len(one.token_ids) for one in records)
    timed = [one for one in records if one.decode_tok_s]
    num_decoded = sum(len(one.token_ids) - 1 for one in timed)
    decode_s = sum((len(one.token_ids) - 1) / one.decode_tok_s for one in timed)
    mean = f", {num_decoded / decode_s:.1f} tok/s" if decode_s else ""
    answers = f"{counted(len(records), 'answer')}, {counted(tokens, 'token')}{mean}"
    return visible(
        f"{session.title}\n"
        f"  {answers}\n"
        f"  {session.path}\n"
        f"  go on with: {own_command()} chat --resume {session.id}\n"
    )


def _say_farewell(session: Session) -> None:
    if not session.messages:
        return
    if not session.is_saved:
        say(f"The conversation was not saved: {session.disk_problem} ({session.path}).")
        return
    try:
        sys.stdout.write(farewell(session))
        sys.stdout.flush()
    except (OSError, ValueError):  # the terminal went away with SIGHUP
        return
