"""``/retry``: one more answer with other values than an earlier one had, for both front ends.

``/retry``, ``/retry 2`` (your second message from the end), ``/retry temperature=0.2 seed=7``; keys
hand over the id of a message. Knows no screen.
"""

from dataclasses import dataclass

from app.live import OF_A_CONVERSATION, LiveSettings, full_name
from app.sessions.branches import prompt_meant
from app.sessions.entries import MessageEntry
from app.sessions.session import Session
from engine.errors import RequestError

COMMAND = "/retry"


@dataclass(frozen=True, slots=True)
class Retry:
    """What shall be answered once more, and how.

    Attributes:
        prompt: the message of the person.
        live: begins with the values of the answer that stands there; changing it changes nothing
            else.
        is_told: other values were given with the command.
        refused: sentences about values of that answer that do not read any more.
    """

    prompt: MessageEntry
    live: LiveSettings
    is_told: bool
    refused: list[str]


def retry_meant(session: Session, live: LiveSettings, argument: str) -> Retry:
    """What a person means.

    Raises:
        RequestError: there is no such message, or an answer is not made with such a value.
        SettingsError: there is no such setting, or a value does not read.
    """
    words = argument.split()
    which = words.pop(0) if words and "=" not in words[0] else ""
    prompt = prompt_meant(session, which)
    like, refused = live.like(values_of(session, prompt, live))
    for word in words:
        name, sign, value = word.partition("=")
        if not sign or full_name(name) not in OF_A_CONVERSATION:
            raise RequestError(
                f"'{word}' is no value that an answer is made with.",
                "Write NAME=VALUE, such as temperature=0.2 or seed=7.",
            )
        like.set(name, value, COMMAND)
    return Retry(prompt, like, bool(words), refused)


def values_of(session: Session, prompt: MessageEntry, live: LiveSettings) -> dict[str, str]:
    """How the answer to a message was made, its seed too; as answers are made now without one."""
    path = session.path_messages()
    answer = next((one for one in path if one.parent == prompt.id), None)
    if answer is None or answer.made_with is None:
        values = live.in_force()
    else:
        values = dict(answer.made_with)
    if answer is not None and answer.record is not None:
        values["sampling.seed"] = str(answer.record.seed)
    return values
