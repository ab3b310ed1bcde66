"""Branches of a conversation: an earlier message in other words, another answer, or its rest.

All of it only while the conversation is free.
"""

from app.live import LiveSettings
from app.sessions.entries import MessageEntry
from app.tui.conversation import Conversation


def write_anew(chat: Conversation, entry: MessageEntry, text: str) -> None:
    """Put other words beside an earlier message.

    A message of the person is answered; behind an answer the person goes on.
    """
    before = chat.session.leaf
    if entry.role == "user":
        chat.go_to(entry.parent)
        chat.ask(text, before)
    else:
        chat.session.add_message(entry.role, text, entry.reasoning, entry.parent)
        chat.show()


def answer_again(chat: Conversation, prompt_id: str, live: LiveSettings | None = None) -> None:
    """Answer an earlier message once more; ``live`` are values for this one answer."""
    before = chat.session.leaf
    chat.go_to(prompt_id)
    chat.start_answer(before, live=live)


def go_on(chat: Conversation) -> bool:
    """Go on with the last answer; False without one to go on with."""
    session = chat.session
    last = session.messages.get(session.leaf)
    if last is None or last.role != "assistant" or last.ended_itself:
        return False
    if last.content or last.reasoning:
        chat.start_answer(session.leaf, goes_on=True)
    else:
        answer_again(chat, last.parent)
    return True
