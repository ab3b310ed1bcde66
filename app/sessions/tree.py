"""The branches of a conversation: which messages stand beside, below and at the ends.

A turn that the engine refused leaves no branch: its message went back into the box. Knows no file.
"""

from collections.abc import Mapping

from app.sessions.entries import MessageEntry

REFUSED = "refused"
"""Reason of an answer that the engine would not begin with."""


class Tree:
    """Messages by parent, in the order they were made."""

    def __init__(self, messages: Mapping[str, MessageEntry]) -> None:
        self._messages = messages
        self._children: dict[str, list[MessageEntry]] = {}
        unanswered: set[str] = set()
        for one in reversed(list(messages.values())):
            if _is_refused(one):
                unanswered.add(one.parent)
            elif one.id not in unanswered or one.id in self._children:
                self._children.setdefault(one.parent, []).append(one)
        for found in self._children.values():
            found.reverse()

    def siblings(self, message_id: str) -> list[MessageEntry]:
        """The messages that share a parent with this one, itself among them, oldest first."""
        return self._children.get(self._messages[message_id].parent, [])

    def num_below(self, parent: str) -> int:
        """How many messages stand directly below one."""
        return len(self._children.get(parent, ()))

    def newest_leaf(self, message_id: str) -> str:
        """The end of the branch that was made last below a message: where a walk to it lands."""
        while below := self._children.get(message_id):
            message_id = below[-1].id
        return message_id

    def leaves(self) -> list[MessageEntry]:
        """The last message of every branch, in the order they were made."""
        kept = {one.id for found in self._children.values() for one in found}
        ends = kept - self._children.keys()
        return [one for one in self._messages.values() if one.id in ends]

    def place(self, leaf: str) -> tuple[int, int]:
        """Which branch holds ``leaf``, counted from 1, and how many there are."""
        leaves = [one.id for one in self.leaves()]
        end = self.newest_leaf(leaf)
        return (leaves.index(end) + 1 if end in leaves else 0), len(leaves)

    def path(self, leaf: str) -> list[MessageEntry]:
        """A branch from its first message to ``leaf``."""
        found: list[MessageEntry] = []
        while leaf in self._messages and len(found) <= len(self._messages):
            found.append(self._messages[leaf])
            leaf = self._messages[leaf].parent
        return found[::-1]


def _is_refused(entry: MessageEntry) -> bool:
    return entry.reason == REFUSED and not entry.content and not entry.reasoning
