"""``/compare`` in the plain chat: the last prompt under this profile, then under another one."""

from app.interrupt import StopOnSignal
from app.opening import request_of
from app.plain.loading import load
from app.plain.reading_ahead import read_ahead
from app.plain.state import PlainState
from app.report import say
from app.stats import first_difference, stats_line
from app.streams import write_data
from engine.errors import RequestError
from engine.records import TurnRecord
from engine.types import ChatEngine, Message, Request, TextArrived, TurnEnded


def compare(state: PlainState, name: str) -> None:
    """Answer the last prompt twice and go back; nothing of it is kept.

    Raises:
        EngineError: there is no prompt or no such profile, or it does not open.
    """
    info = state.engine.info
    if state.profiles is None or not name:
        raise RequestError("/compare needs the name of a profile.", "/profile lists them.")
    if name == info.profile:
        raise RequestError(f"'{name}' is the one that is loaded.", "Name another one.")
    request = request_of(state.settings, info, _asked(state))
    switch = state.profiles.switch(name, info)
    first = _answer(state.engine, request)
    second: TurnRecord | None = None
    if not switch.beside:
        state.engine.close()
    try:
        other = load(switch.open, spoken=state.settings.chat.a11y)
        try:
            second = _answer(other, request)
        finally:
            other.close()
    finally:
        if not switch.beside:
            state.engine = load(state.opener, spoken=state.settings.chat.a11y)
            read_ahead(state)
    if first is not None and second is not None:
        say(_verdict(first, second))
    say(f"'{info.profile}' goes on as before.")


def _asked(state: PlainState) -> tuple[Message, ...]:
    """The conversation up to the last prompt."""
    messages = list(state.session.request_messages())
    while messages and messages[-1].role == "assistant":
        messages.pop()
    if not messages or messages[-1].role != "user":
        raise RequestError("There is no prompt to compare.", "Send a message first.")
    return tuple(messages)


def _answer(engine: ChatEngine, request: Request) -> TurnRecord | None:
    """Write an answer under the profile's name; None when it did not come to an end."""
    record: TurnRecord | None = None
    say(f"{engine.info.profile}:")
    with StopOnSignal() as interrupt:
        for event in engine.generate(request, interrupt.stop):
            if isinstance(event, TextArrived) and event.channel == "answer":
                write_data(event.text)
            elif isinstance(event, TurnEnded):
                record = event.record
    write_data("\n")
    if record is not None:
        say(stats_line(record))
    return record


def _verdict(first: TurnRecord, second: TurnRecord) -> str:
    one, other = first.token_ids, second.token_ids
    at = first_difference(one, other)
    if at is None:
        return f"The same {len(one)} tokens."
    return f"The first difference is token {at + 1} of {len(one)} and {len(other)}."
