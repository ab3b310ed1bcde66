"""What ``/copy`` means, for both front ends: an answer as written, or one of its code blocks.

``/copy``, ``/copy 2`` (the second answer from the end), ``/copy code``, ``/copy 2 code 1``; keys
hand over the id of a message.
"""

from app.blocks import code_blocks
from app.sessions.branches import message_meant, place_meant
from app.sessions.session import Session
from app.visible import visible
from engine.errors import RequestError


def text_meant(session: Session, argument: str) -> str:
    """The text to copy.

    Raises:
        RequestError: there is no such answer, or no such block in it.
    """
    which, has_code, block = argument.partition("code")
    entry = message_meant(session, which.strip(), "assistant")
    if not has_code:
        return visible(entry.content)
    blocks = code_blocks(visible(entry.content))
    named = block.strip() or str(len(blocks))
    number = place_meant(named)
    if number is None:
        raise RequestError(f"'{named}' is no number of a code block.", "1 is the first.")
    if not blocks:
        raise RequestError("There is no code block in that answer.", "/copy takes all of it.")
    if not 1 <= number <= len(blocks):
        raise RequestError(
            f"There is no code block {number}; there are {len(blocks)}.", "1 is the first."
        )
    return blocks[number - 1]
