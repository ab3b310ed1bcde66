"""Commands that have to wait: for the end of an answer, or for the model."""

from app.tui.conversation import Conversation
from engine.errors import EngineError


class NotNowError(EngineError):
    """What is wanted cannot be done yet; it passes by itself, so it is said for a moment only."""


def expect_no_answer(chat: Conversation) -> None:
    """Raise ``NotNowError`` while an answer is written."""
    if chat.is_busy:
        raise NotNowError("an answer is being written: Esc stops it")


def expect_free(chat: Conversation) -> None:
    """Raise ``NotNowError`` while an answer is written or no model is there."""
    expect_no_answer(chat)
    if not chat.is_free:
        raise NotNowError("the model is not loaded yet")
