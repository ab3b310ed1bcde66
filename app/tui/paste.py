"""Long pastes as short signs in the message, exchanged for the text itself when it is sent."""

import re

from app.attached import as_words
from engine.sizes import counted, size_text

MIN_LINES = 8
MIN_CHARACTERS = 1000
_SIGN = re.compile(r"\[pasted text #(\d+): [\d,]+ lines?, [\d.,]+ [KMG]?B\]")


class PastedTexts:
    """The pastes of one message."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._num = 0

    def paste(self, text: str) -> str:
        """A sign for a long text; what nobody reads before it is sent names no file."""
        sign = self.shorten(text)
        if sign != text:
            self._texts[str(self._num)] = as_words(text)
        return sign

    def shorten(self, text: str) -> str:
        """A sign for a long text; a short one as it is."""
        num_lines = text.count("\n") + 1
        if num_lines < MIN_LINES and len(text) < MIN_CHARACTERS:
            return text
        self._num += 1
        self._texts[str(self._num)] = text
        size = size_text(len(text.encode("utf-8", "replace")))
        return f"[pasted text #{self._num}: {counted(num_lines, 'line')}, {size}]"

    def expand(self, text: str) -> str:
        """The message with every sign exchanged for its text."""
        return _SIGN.sub(lambda sign: self._texts.get(sign[1], sign[0]), text)
