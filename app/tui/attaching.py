"""What a message will cost before it is sent: the tokens of its words and of the files it names."""

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

LONG_CHARACTERS = 2000
"""From so many characters on a message without files tells what it costs, too."""

NAME_CELLS = 40

Key = tuple[str, int, int]
"""A file as it is now: its name, when it was changed, and its size in bytes."""


class Attaching:
    """Counts in a thread, one text after the other, and remembers while a file stays the same."""

    def __init__(self, chat: Conversation) -> None:
        self._chat = chat
        self._text = ""
        self._names: list[str] = []
        self._found: dict[Key, int | str] = {}
        self._counting: asyncio.Future[int | str] | None = None
        self._counted = ""
        self._num_words: int | None = None
        """Tokens of ``_counted``, which stand for the message until that is counted anew."""

    def hint(self, text: str, before_cursor: str, message: str) -> str:
        """One sentence on what a message costs, or on what completes a name; may be empty.

        Args:
            text: what stands in the box.
            before_cursor: the line of it that the cursor is in, up to the cursor.
            message: the text with its pastes in full.
        """
        if "@" not in text:
            return self._cost(message, []) if len(message) >= LONG_CHARACTERS else ""
        if text != self._text:
            self._text, self._names = text, names_in(text)
        completion = completion_at(before_cursor)
        if completion is not None and not set(completion.names) & set(self._names):
            return f"Tab completes: {'  '.join(completion.names)}"
        if completion is None and not self._names and (name := name_at(before_cursor)):
            return f"there is no file {visible_line(name, NAME_CELLS)}: it is sent as a word"
        return self._cost(message, self._names) if self._names else ""

    def _cost(self, message: str, names: list[str]) -> str:
        what = _listed(names) or "a long message"
        if self._chat.info is None:
            return f"{what}: tokens are counted once the model is loaded"
        found = {name: self._known(name) for name in names}
        if refused := next((one for one in found.values() if isinstance(one, str)), ""):
            return refused
        if len(message) > self._most_bytes:
            return f"the message is more than the context holds: {_millions(message)}"
        counts = [one for one in found.values() if isinstance(one, int)]
        num_words = self._known_words(message)
        if num_words is None or len(counts) < len(found):
            return f"{what}: counting tokens"
        parts = [
            f"{visible_line(name, NAME_CELLS)} {count:,} tokens" for name, count in found.items()
        ]
        parts.append(f"your words {num_words:,}" if names else f"{num_words:,} tokens")
        return f"{self._left(num_words + sum(counts))}: {', '.join(parts)}"

    def _left(self, num_tokens: int) -> str:
        info, rates = self._chat.info, self._chat.rates
        held = rates.context_tokens if rates is not None else 0
        most = info.max_context_tokens if info is not None else 0
        left = most - held
        if num_tokens > left:
            return f"too many for the {max(left, 0):,} of {most:,} that are left"
        return f"{left - num_tokens:,} of {most:,} left"

    def _known(self, name: str) -> int | str | None:
        """Tokens of a file, or why it cannot be sent; None while that is found out."""
        try:
            state = expanded(name).stat()
        except (OSError, ValueError):
            key = (name, 0, 0)
        else:
            key = (name, state.st_mtime_ns, state.st_size)
        if key not in self._found:
            most = self._most_bytes
            self._begin(
                lambda count: _count(name, count, most),
                lambda counted: self._found.__setitem__(key, counted),
            )
        return self._found.get(key)

    def _known_words(self, message: str) -> int | None:
        """Tokens of a message without its files, or of how it was a moment ago; None at first."""

        def take(counted: int | str) -> None:
            self._counted = message
            self._num_words = counted if isinstance(counted, int) else None

        if message != self._counted:
            self._begin(lambda count: count(message), take)
        return self._num_words

    @property
    def _most_bytes(self) -> int:
        info = self._chat.info
        return info.max_context_tokens * MOST_BYTES_A_TOKEN if info is not None else 0

    def _begin(
        self,
        job: Callable[[Callable[[str], int]], int | str],
        take: Callable[[int | str], None],
    ) -> None:
        """Count in a thread, unless one counts already; ``take`` gets the count or a refusal."""
        if self._counting is not None:
            return

        def end(done: "asyncio.Future[int | str]") -> None:
            self._counting = None
            if not done.cancelled():
                take(done.result())

        loop = asyncio.get_running_loop()
        self._counting = loop.run_in_executor(None, job, self._chat.seat.text_tokens)
        self._counting.add_done_callback(end)


def _count(name: str, text_tokens: Callable[[str], int], most_bytes: int) -> int | str:
    try:
        text = read_file(name).block
    except RequestError as error:
        return error.message
    if len(text) > most_bytes:
        return f"{name} is more than the context holds: {_millions(text)}."
    return text_tokens(text)


def _millions(text: str) -> str:
    return f"{len(text) / 1e6:.1f} million characters"


def _listed(names: list[str]) -> str:
    return ", ".join(visible_line(one, NAME_CELLS) for one in names)
