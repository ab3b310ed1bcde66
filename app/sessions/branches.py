"""What a person means by a message or a branch, for both front ends.

Messages are meant by their place from the end, 1 for the last, or by their id, which keys hand
over; branches by ``next``, ``previous`` or their number in the order they were made.
"""

import re
from dataclasses import dataclass

from app.sessions.entries import MessageEntry
from app.sessions.session import Session
from app.sessions.tree import Tree
from engine.errors import RequestError
from engine.types import Role

STEPS = {"next": 1, "previous": -1}
_PLACE = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class Branch:
    """A branch: its last message, where it leaves the others, and how long it is."""

    leaf: MessageEntry
    fork: MessageEntry
    fork_number: int
    num_messages: int


def place_meant(text: str) -> int | None:
    """The number by which a person counts something; None for a text that is none."""
    return int(text) if _PLACE.fullmatch(text) else None


def message_meant(session: Session, argument: str, role: Role) -> MessageEntry:
    """The message of ``role`` that is meant; the last one when nothing is said.

    Raises:
        RequestError: there is no such message.
    """
    if argument in session.messages:
        return session.messages[argument]
    number = place_meant(argument or "1")
    if number is None:
        raise RequestError(
            f"'{argument}' is no number of a message.", "Count from the end, 1 is the last."
        )
    found = [one for one in session.path_messages() if one.role == role]
    if not 1 <= number <= len(found):
        whose = "of yours" if role == "user" else "of the model"
        raise RequestError(
            f"There is no message {number} {whose} from the end.", f"There are {len(found)}."
        )
    return found[-number]


def prompt_meant(session: Session, argument: str) -> MessageEntry:
    """The message of the person that is to be answered again.

    Raises:
        RequestError: there is none.
    """
    path = session.path_messages()
    entry: MessageEntry | None = path[-1] if path else None
    if argument:
        entry = message_meant(session, argument, "user")
    while entry is not None and entry.role != "user":
        entry = session.messages.get(entry.parent)
    if entry is None:
        raise RequestError("There is no message to answer again.", "Send one first.")
    return entry


def branch_meant(session: Session, argument: str) -> tuple[str, str]:
    """The message and the end of the branch that ``/branch argument`` goes to.

    ``next`` and ``previous`` may be followed by the id of the message they are meant at.

    Raises:
        RequestError: there is no such branch.
    """
    word, _, message_id = argument.partition(" ")
    tree = session.tree()
    if word in STEPS:
        at = _beside(session, tree, message_id, STEPS[word])
        return at, tree.newest_leaf(at)
    leaves = tree.leaves()
    number = place_meant(word)
    if number is None:
        raise RequestError(f"'{word}' is no branch.", "Write next, previous, or its number.")
    if not 1 <= number <= len(leaves):
        raise RequestError(
            f"There is no branch {number}; there are {len(leaves)}.", "/tree lists them."
        )
    leaf = leaves[number - 1].id
    return leaf, leaf


def branches_of(session: Session) -> list[Branch]:
    """Every branch, in the order they were made."""
    tree = session.tree()
    return [_branch(tree, leaf) for leaf in tree.leaves()]


def _branch(tree: Tree, leaf: MessageEntry) -> Branch:
    path = tree.path(leaf.id)
    forks = (one for one in reversed(path) if len(tree.siblings(one.id)) > 1)
    fork = next(forks, path[0])
    return Branch(leaf, fork, path.index(fork) + 1, len(path))


def _beside(session: Session, tree: Tree, message_id: str, step: int) -> str:
    """The message beside the one meant; beside the last that has any, when that has none."""
    path = session.path_messages()
    meant = [one for one in path if one.id == message_id]
    for one in (*meant, *reversed(path)):
        beside = [other.id for other in tree.siblings(one.id)]
        if len(beside) > 1 and one.id in beside:
            return beside[(beside.index(one.id) + step) % len(beside)]
    raise RequestError(
        "No message here has another beside it.", "Writing one anew or answering again makes one."
    )
