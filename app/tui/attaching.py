"""What a message will cost before it is sent: the tokens of the files that it names."""

import asyncio
from collections.abc import Callable

from app.attached import names_in, read_file
from app.file_names import completion_at, name_at
from app.tui.conversation import Conversation
from app.visible import visible_line
from engine.errors import RequestError
from engine.settings.environment import expanded

MOST_BYTES_A_TOKEN = 8
"""A text of more bytes than so many a token of the context is not worth counting."""

NAME_CELLS = 40

Key = tuple[str, int, int]
"""A file as it is now: its name, when it was changed, and its size in bytes."""


class Attaching:
    """Counts in a thread, one file after the other, and remembers while a file stays the same."""

    def __init__(self, chat: Conversation) -> None:
        self._chat = chat
        self._text = ""
        self._names: list[str] = []
        self._found: dict[Key, int | str] = {}
        self._counting: asyncio.Future[int | str] | None = None

    def hint(self, text: str, before_cursor: str) -> str:
        """One sentence on the files that a text names, or on what completes a name; may be empty.

        Args:
            text: what is typed.
            before_cursor: the line of it that the cursor is in, up to the cursor.
        """
        if "@" not in text:
            return ""
        if text != self._text:
            self._text, self._names = text, names_in(text)
        completion = completion_at(before_cursor)
        if completion is not None and not set(completion.names) & set(self._names):
            return f"Tab completes: {'  '.join(completion.names)}"
        if completion is None and not self._names and (name := name_at(before_cursor)):
            return f"there is no file {visible_line(name, NAME_CELLS)}: it is sent as a word"
        return self._cost() if self._names else ""

    def _cost(self) -> str:
        if self._chat.info is None:
            return f"{_listed(self._names)}: tokens are counted once the model is loaded"
        found = {name: self._known(name) for name in self._names}
        if refused := next((one for one in found.values() if isinstance(one, str)), ""):
            return refused
        counts = [one for one in found.values() if isinstance(one, int)]
        if len(counts) < len(found):
            return f"{_listed(self._names)}: counting tokens"
        parts = [
            f"{visible_line(name, NAME_CELLS)} {count:,} tokens" for name, count in found.items()
        ]
        return f"{', '.join(parts)}; {self._left(sum(counts))}"

    def _left(self, num_tokens: int) -> str:
        info, rates = self._chat.info, self._chat.rates
        held = rates.context_tokens if rates is not None else 0
        most = info.max_context_tokens if info is not None else 0
        left = most - held
        if num_tokens > left:
            return f"too many: {max(left, 0):,} of the context's {most:,} are left"
        return f"{left - num_tokens:,} of {most:,} left"

    def _known(self, name: str) -> int | str | None:
        """Tokens of a file, or why it cannot be sent; None while that is found out."""
        try:
            state = expanded(name).stat()
        except (OSError, ValueError):
            key = (name, 0, 0)
        else:
            key = (name, state.st_mtime_ns, state.st_size)
        if key not in self._found and self._counting is None:
            loop = asyncio.get_running_loop()
            info = self._chat.info
            most = info.max_context_tokens if info is not None else 0
            self._counting = loop.run_in_executor(
                None, _count, name, self._chat.text_tokens, most * MOST_BYTES_A_TOKEN
            )
            self._counting.add_done_callback(lambda done: self._take(key, done))
        return self._found.get(key)

    def _take(self, key: Key, done: "asyncio.Future[int | str]") -> None:
        self._counting = None
        if not done.cancelled():
            self._found[key] = done.result()


def _count(name: str, text_tokens: Callable[[str], int], most_bytes: int) -> int | str:
    try:
        text = read_file(name).text
    except RequestError as error:
        return error.message
    if len(text) > most_bytes:
        return f"{name} is more than the context holds: {len(text) / 1e6:.1f} million characters."
    return text_tokens(text)


def _listed(names: list[str]) -> str:
    return ", ".join(visible_line(one, NAME_CELLS) for one in names)
