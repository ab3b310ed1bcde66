"""``/profile`` in the plain chat: the profiles as lines, and going to another one."""

from app.plain.loading import load
from app.plain.reading_ahead import read_ahead
from app.plain.state import PlainState
from app.profile_menu import Switch, offer_line
from app.report import say
from engine.errors import EngineError, RequestError


def profile(state: PlainState, name: str) -> None:
    """Show every profile, or open the one called ``name``; raises `EngineError`."""
    if state.profiles is None:
        raise RequestError("There is no other profile here.", "Start 'qwen38 chat' without a pipe.")
    if not name:
        for one in state.profiles.offers(state.engine.info):
            say(offer_line(one, state.engine.info.profile))
        for one in state.profiles.faulty():
            say(f"{one.name}: faulty. {one.problem}")
        say("/profile NAME opens another one; the conversation is kept.")
        return
    _go(state, state.profiles.switch(name, state.engine.info))


def _go(state: PlainState, switch: Switch) -> None:
    """Open another profile; when it does not open, the one before is there as it was."""
    before = state.engine
    if not switch.beside:
        before.close()
    try:
        state.engine = load(state.recorded(switch.open), spoken=state.settings.chat.a11y)
    except EngineError as error:
        if not switch.beside:
            state.engine = load(state.opener, spoken=state.settings.chat.a11y)
            read_ahead(state)
        say(f"'{switch.name}' was not loaded: '{state.engine.info.profile}' goes on as before.")
        raise error from None
    state.opener = state.recorded(switch.open)
    if switch.beside:
        before.close()
    state.live.rebase(switch.plan.sources)
    say(f"{state.engine.info.model}, profile {switch.name}, is loaded.")
    read_ahead(state)
