"""``qwen38 chat``: decides between the full screen and the plain form, and supervises either."""

import sys
from typing import Annotated

import typer

from app.commands import options
from app.commands.sessions import store_of
from app.front_end import plain_reason
from app.opening import Plan, plan
from app.report import say
from app.sessions.store import SessionError
from app.streams import is_terminal

LATEST = "latest"
"""What a bare ``--resume`` stands for."""


def chat(
    *,
    model: options.Model = None,
    profile: options.Profile = None,
    plain: Annotated[bool, typer.Option("--plain", help="A prompt instead of the screen.")] = False,
    resume: Annotated[
        str | None,
        typer.Option(help="Go on with a conversation; the last one without ID.", metavar="[ID]"),
    ] = None,
    device: options.Device = None,
    system: options.System = None,
    sets: options.Sets = None,
) -> int:
    """Talk with the model."""
    given: dict[str, object] = {
        "model.dir": model,
        "model.profile": profile,
        "model.device": device,
        "chat.system": system,
    }
    chosen = plan(options.as_settings(given, sets))
    session_id = _resumed(chosen, resume)
    reason = plain_reason()
    if not is_terminal(sys.stdin):
        from app.plain.once import answer_stdin

        return answer_stdin(chosen, session_id)
    from app.launcher import supervise

    if reason and not plain:
        say(f"Plain form: {reason}.")
    if plain or reason:
        return supervise(lambda: _plain(chosen, session_id))
    return supervise(lambda: _screen(chosen, session_id))


def _resumed(chosen: Plan, wanted: str | None) -> str | None:
    """The id to go on with; refused here, before anything is drawn, when there is none."""
    if wanted is None:
        return None
    store = store_of(chosen.settings)
    if wanted == LATEST:
        latest = store.latest()
        if latest is None:
            raise SessionError(f"There is no conversation in {store.folder} to go on with.")
        return latest.id
    return store.open(wanted, write=False).id


def _plain(chosen: Plan, session_id: str | None) -> int:
    from app.plain.chat import run_plain

    return run_plain(chosen, session_id)


def _screen(chosen: Plan, session_id: str | None) -> int:
    from app.tui.run import run_chat

    return run_chat(chosen.settings, chosen.sources, session_id, chosen.open)
