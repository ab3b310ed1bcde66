"""Turn ids into text as they come: whole characters, two channels, stop strings held back."""

import codecs
from dataclasses import dataclass

from engine.text.tokenizer import Tokenizer
from engine.types import Channel

Piece = tuple[Channel, str]
"""Text of one channel, never empty."""


@dataclass(slots=True)
class Stopping:
    """Looks for stop strings in text that arrives in pieces.

    ``held`` is the end of the text so far that may be the beginning of a stop string.
    """

    stops: tuple[str, ...]
    held: str = ""
    found: bool = False

    def feed(self, text: str) -> str:
        """Take more text; return what is certain to stand before any stop string."""
        text = self.held + text
        # the one that is complete first, so that it does not matter how the text is cut
        matches = [(at + len(one), at) for one in self.stops if (at := text.find(one)) >= 0]
        if matches:
            self.found, self.held = True, ""
            return text[: min(matches)[1]]
        num_held = max((_overlap(text, one) for one in self.stops), default=0)
        self.held = text[len(text) - num_held :]
        return text[: len(text) - num_held]

    def release(self) -> str:
        """Return what was held: no more text comes."""
        text, self.held = self.held, ""
        return text


class TextStream:
    """One answer's ids on their way to text.

    - A character is given out when its last byte is there; bytes that cannot become UTF-8 give
      U+FFFD, the same as decoding all ids at once.
    - Control tokens give no text. The think tokens switch between the channels.
    - White space at the end of thinking and at the beginning of an answer that follows thinking
      is the template's, not the text's, and is left out.
    - Stop strings count in the answer only; text from the first one on is left out.

    Args:
        tokenizer: of the checkpoint.
        thinking: whether the prompt ends inside the thinking channel.
        at_start: whether nothing stands in the channel yet, so that white space is left out; as
            ``thinking`` when not given.
        stops: stop strings, none empty.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        thinking: bool = False,
        at_start: bool | None = None,
        stops: tuple[str, ...] = (),
    ) -> None:
        self._tokenizer = tokenizer
        self._characters = codecs.getincrementaldecoder("utf-8")("replace")
        self._channel: Channel = "thinking" if thinking else "answer"
        self._stopping = Stopping(stops)
        self._spaces = ""
        self._at_start = thinking if at_start is None else at_start
        self._texts: dict[Channel, list[str]] = {"thinking": [], "answer": []}

    @property
    def stopped(self) -> bool:
        """Whether a stop string was found."""
        return self._stopping.found

    @property
    def answer(self) -> str:
        """The answer given out so far."""
        return "".join(self._texts["answer"])

    @property
    def reasoning(self) -> str:
        """The thinking given out so far."""
        return "".join(self._texts["thinking"])

    def push(self, token_id: int) -> list[Piece]:
        """Take the next id; return the text that became certain, in order."""
        if self.stopped:
            return []
        if token_id in (self._tokenizer.think_open_id, self._tokenizer.think_close_id):
            return self._switch(
                "thinking" if token_id == self._tokenizer.think_open_id else "answer"
            )
        if self._tokenizer.is_control(token_id):
            return []
        return self._arrive(self._characters.decode(self._tokenizer.bytes_of(token_id)))

    def finish(self) -> list[Piece]:
        """Give out what was held back: the last id was pushed."""
        return [] if self.stopped else self._end_channel()

    def _switch(self, channel: Channel) -> list[Piece]:
        pieces = self._end_channel()
        self._at_start = True
        self._channel = channel
        return pieces

    def _end_channel(self) -> list[Piece]:
        pieces = self._arrive(self._characters.decode(b"", final=True))
        self._characters.reset()
        self._spaces = ""
        if self._channel == "answer" and not self.stopped:
            pieces += self._give(self._stopping.release())
        return pieces

    def _arrive(self, text: str) -> list[Piece]:
        if self._at_start:
            text = text.lstrip()
            self._at_start = not text
        if self._channel == "answer":
            return self._give(self._stopping.feed(text))
        text = self._spaces + text
        kept = text.rstrip()
        self._spaces = text[len(kept) :]
        return self._give(kept)

    def _give(self, text: str) -> list[Piece]:
        if not text:
            return []
        self._texts[self._channel].append(text)
        return [(self._channel, text)]


def _overlap(text: str, stop: str) -> int:
    """Length of the longest end of ``text`` that is a proper beginning of ``stop``."""
    longest = min(len(text), len(stop) - 1)
    return next((size for size in range(longest, 0, -1) if text.endswith(stop[:size])), 0)
