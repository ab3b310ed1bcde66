"""What the terminal sends, byte by byte: no byte ends the chat, and no pasted one is a key."""

import codecs
from collections.abc import Callable
from functools import partial

from textual._xterm_parser import XTermParser
from textual.drivers import linux_driver
from textual.message import Message

_BEGIN, _END = "\x1b[200~", "\x1b[201~"
_ESCAPE_SHOWN = {0x1B: "\N{SYMBOL FOR ESCAPE}"}


class TerminalText:
    """Bytes from the terminal as text.

    Bytes that are no UTF-8 become U+FFFD: a paste from a Latin-1 file has them, and so has a
    terminal of another encoding. An escape character inside a bracketed paste becomes its visible
    sign: what follows it would be taken for keys, and the paste would lose its order.
    """

    def __init__(self, encoding: str = "utf-8") -> None:
        self._decode = codecs.getincrementaldecoder(encoding)("replace").decode
        self._is_pasting = False
        self._before = ""
        """The last characters that went through, in which a paste may begin."""
        self._held = ""
        """The end of what was pasted so far, which may begin the end of the paste."""

    def decode(self, data: bytes, final: bool = False) -> str:
        """The next characters; those that may be half of a paste's end wait for the rest."""
        rest, self._held = self._held + self._decode(data, final), ""
        ready: list[str] = []
        while rest:
            taken, rest = self._pasted(rest) if self._is_pasting else self._typed(rest)
            ready.append(taken)
        return "".join(ready)

    def _typed(self, text: str) -> tuple[str, str]:
        seen = self._before + text
        at = seen.find(_BEGIN)
        if at < 0:
            self._before = seen[1 - len(_BEGIN) :]
            return text, ""
        cut = at + len(_BEGIN) - len(self._before)
        self._before, self._is_pasting = "", True
        return text[:cut], text[cut:]

    def _pasted(self, text: str) -> tuple[str, str]:
        inside, end, behind = text.partition(_END)
        self._is_pasting = not end
        if not end:
            held = next(n for n in range(len(_END) - 1, -1, -1) if inside.endswith(_END[:n]))
            cut = len(inside) - held
            inside, self._held = inside[:cut], inside[cut:]
        return inside.translate(_ESCAPE_SHOWN) + end, behind


class KeyParser(XTermParser):
    """The library's parser, for terminals that report a window without pixels or cells as well."""

    def parse_mouse_code(self, code: str) -> Message | None:
        """A mouse event; it counts in cells where the terminal does not know its pixels."""
        sizes = (self.terminal_pixel_size, self.terminal_size)
        if any(one is not None and not all(one) for one in sizes):
            self.mouse_pixels = False
        return super().parse_mouse_code(code)


def read_bytes_safely() -> None:
    """Have the thread that reads the keys decode with `TerminalText` and parse with `KeyParser`.

    It decodes strictly and ends with the first byte that is no UTF-8, and the screen with it. Its
    decoder is no argument, so the name that it looks up is replaced.
    """
    linux_driver.getincrementaldecoder = _decoder  # pyright: ignore[reportPrivateImportUsage]
    linux_driver.XTermParser = KeyParser  # pyright: ignore[reportPrivateImportUsage]


def _decoder(encoding: str) -> Callable[[], TerminalText]:
    return partial(TerminalText, encoding)
