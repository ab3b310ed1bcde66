"""``qwen38 chat``: decides between the full screen and the plain form, and supervises either."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from app.commands import options
from app.commands.replay import play
from app.commands.sessions import store_of
from app.front_end import plain_reason
from app.opening import Plan, plan
from app.report import say
from app.sessions.store import SessionError
from app.streams import is_terminal
from app.trace.export import check_target, exported_at_the_end
from app.trace.record import Recorder
from engine.errors import RequestError

LATEST = "latest"
"""What a bare ``--resume`` stands for."""


def chat(
    *,
    model: options.Model = None,
    profile: options.Profile = None,
    plain: Annotated[
        bool, typer.Option("--plain", help="A prompt instead of the screen; piped, line by line.")
    ] = False,
    a11y: Annotated[
        bool,
        typer.Option("--a11y", help="For screen readers: --plain, nothing redrawn, told in words."),
    ] = False,
    fps: Annotated[
        int | None, typer.Option(help="Paints a second; 20, and 10 over SSH.", metavar="N")
    ] = None,
    use_ascii: Annotated[bool, typer.Option("--ascii", help="Draw with ASCII signs only.")] = False,
    no_mouse: Annotated[
        bool, typer.Option("--no-mouse", help="Leave the mouse to the terminal.")
    ] = False,
    resume: Annotated[
        str | None,
        typer.Option(help="Go on with a conversation; the last one without ID.", metavar="[ID]"),
    ] = None,
    device: options.Device = None,
    system: options.System = None,
    thinking_budget: options.ThinkingBudget = None,
    trace: options.Trace = None,
    replay: Annotated[
        Path | None,
        typer.Option("--replay", help="Play a recorded trace; no model.", metavar="FILE"),
    ] = None,
    speed: Annotated[
        float | None,
        typer.Option(help="How fast --replay plays; 1.", metavar="N", min=0.01, max=1000.0),
    ] = None,
    sets: options.Sets = None,
) -> int:
    """Talk with the model.

    What is piped in is one message, answered once. With --plain or --a11y each line of it is a
    message or a slash command. 'qwen38 run' answers a pipe and keeps no conversation.
    """
    of_the_screen: dict[str, object] = {
        "chat.ascii": use_ascii or None,
        "chat.fps": fps,
        "chat.mouse": False if no_mouse else None,
    }
    if replay is not None:
        asked = (model, profile, resume, device, system, thinking_budget, trace)
        is_alone = all(one is None for one in asked) and not (plain or a11y)
        given = options.as_settings(of_the_screen, sets)
        return play(replay, 1.0 if speed is None else speed, given, is_alone=is_alone)
    if speed is not None:
        raise RequestError("--speed is of a replay.", "Write --replay FILE beside it.")
    if resume is not None and system is not None:
        raise RequestError(
            "--system is of a new conversation, and --resume goes on with one that has its own.",
            "Leave one of them out; /system in the chat changes it.",
        )
    if trace is not None:
        check_target("--trace", trace)
    given = {
        **of_the_screen,
        "model.dir": model,
        "model.profile": profile,
        "model.device": device,
        "chat.system": system,
        "chat.thinking_budget": thinking_budget,
        "chat.a11y": a11y or None,
    }
    chosen = plan(options.as_settings(given, sets))
    session_id = _resumed(chosen, resume)
    reason = plain_reason()
    by_line = (plain or a11y) and sys.stdin is not None  # pyright: ignore[reportUnnecessaryComparison]  closed with <&-
    if not is_terminal(sys.stdin) and not by_line:
        return _once(chosen, session_id, trace)
    from app.launcher import supervise

    plain = plain or chosen.settings.chat.a11y
    if reason and not plain:
        say(f"Plain form: {reason}.")
    if plain or reason:
        return supervise(lambda: _plain(chosen, session_id, trace))
    return supervise(lambda: _screen(chosen, session_id, trace))


def _resumed(chosen: Plan, wanted: str | None) -> str | None:
    """The id to go on with; refused here, before anything is drawn, when there is none."""
    if wanted is None:
        return None
    store = store_of(chosen.settings)
    if wanted == LATEST:
        latest = store.latest()
        if latest is None:
            raise SessionError(
                f"There is no conversation in {store.folder} to go on with.", "Leave --resume out."
            )
        return latest.id
    return store.open(wanted, write=False).id


def _once(chosen: Plan, session_id: str | None, trace: Path | None) -> int:
    from app.plain.once import answer_stdin

    recorder = _recorder(chosen, trace)
    with exported_at_the_end(recorder, trace):
        return answer_stdin(chosen, session_id, recorder)


def _plain(chosen: Plan, session_id: str | None, trace: Path | None) -> int:
    from app.plain.chat import run_plain

    recorder = _recorder(chosen, trace)
    with exported_at_the_end(recorder, trace):
        return run_plain(chosen, session_id, recorder)


def _screen(chosen: Plan, session_id: str | None, trace: Path | None) -> int:
    from app.profile_menu import ProfileMenu
    from app.tui.run import run_chat

    recorder = _recorder(chosen, trace)
    with exported_at_the_end(recorder, trace):
        return run_chat(
            chosen.settings, chosen.sources, session_id, chosen.open, recorder,
            profiles=ProfileMenu(chosen),
        )  # fmt: skip


def _recorder(chosen: Plan, trace: Path | None) -> Recorder:
    """Records as the settings say, and always when a file is asked for."""
    return Recorder(chosen.settings, is_on=True if trace is not None else None)
