"""Cutting Markdown that is still arriving into finished blocks and a tail that is still open.

A cut is made only where no construct can be open: after a blank line outside fences, and around
a fenced code block. A list, a quote or indented code goes on over blank lines, so there the cut
waits for the first line that cannot belong to it. What is never cut is drawn exactly, only later.
"""

import re
from dataclasses import dataclass
from typing import Literal

Kind = Literal["markdown", "code"]

_FENCE = re.compile(r"^( {0,3})(`{3,}(?!.*`)|~{3,})(.*)$")
_LIST_ITEM = re.compile(r"^\s*([-*+]|\d{1,9}[.)])(\s|$)")
_MAY_BECOME_FENCE = re.compile(r"^ {0,3}(`{1,2}$|`{3}|~{1,2}$|~{3})")
_REFERENCE = re.compile(r"^ {0,3}\[[^\]]+\]:\s*\S", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Block:
    """A finished piece of Markdown; ``source`` is what was written, for drawing and copying."""

    kind: Kind
    source: str

    @property
    def language(self) -> str:
        """The word after an opening fence; empty for anything else."""
        match = _FENCE.match(self.source.split("\n", 1)[0]) if self.kind == "code" else None
        return match[3].strip().split(" ")[0] if match else ""

    @property
    def code(self) -> str:
        """The lines between the fences; the source itself for anything else."""
        return code_inside(self.source) if self.kind == "code" else self.source


def code_inside(source: str) -> str:
    """The lines of a fenced block without its fences; the closing one may still be missing."""
    opening, _, body = source.partition("\n")
    fence = _FENCE.match(opening)
    if fence is None:
        return source
    lines = body.split("\n")
    while lines and not lines[-1].strip():
        lines.pop()
    if lines and _closes(lines[-1], fence[2]):
        lines.pop()
    indent = len(fence[1])
    return "\n".join(_outdent(line, indent) for line in lines)


def _outdent(line: str, indent: int) -> str:
    blanks = len(line) - len(line.lstrip(" "))
    return line[min(indent, blanks) :]


def _closes(line: str, fence: str) -> bool:
    stripped = line.strip()
    indent = len(line) - len(line.lstrip(" "))
    return indent <= 3 and len(stripped) >= len(fence) and set(stripped) == {fence[0]}


class BlockCutter:
    """Takes text as it arrives and gives back blocks that are finished."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._partial: list[str] = []
        self._fence = ""
        self._fence_is_block = False
        self._goes_on_over_blanks = False
        self._after_blank = False

    @property
    def open_lines(self) -> list[str]:
        """Complete lines of the open block, oldest first."""
        return self._lines

    @property
    def partial(self) -> str:
        """The line that is arriving."""
        if len(self._partial) > 1:
            self._partial = ["".join(self._partial)]
        return self._partial[0] if self._partial else ""

    @property
    def shown_partial(self) -> str:
        """The line that is arriving, or nothing while it may turn out to be a fence."""
        return "" if _MAY_BECOME_FENCE.match(self.partial[:8]) else self.partial

    @property
    def in_code(self) -> bool:
        """Whether the open block is a fenced code block of its own."""
        return bool(self._fence) and self._fence_is_block

    def feed(self, text: str) -> list[Block]:
        """Take more text; return the blocks that it finished."""
        *complete, rest = text.split("\n")
        if not complete:
            self._partial.append(rest)
            return []
        complete[0] = self.partial + complete[0]
        self._partial = [rest] if rest else []
        sealed: list[Block] = []
        for line in complete:
            self._take(line, sealed)
        return sealed

    def finish(self) -> list[Block]:
        """Seal whatever is left, also an unclosed fence."""
        sealed: list[Block] = []
        if self._partial:
            line, self._partial = self.partial, []
            self._take(line, sealed)
        self._seal(sealed)
        self._fence = ""
        return sealed

    def _take(self, line: str, sealed: list[Block]) -> None:
        if self._fence:
            self._take_inside_fence(line, sealed)
        elif not line.strip():
            self._take_blank(sealed)
        else:
            self._take_text(line, sealed)

    def _take_inside_fence(self, line: str, sealed: list[Block]) -> None:
        self._lines.append(line)
        if _closes(line, self._fence):
            self._fence = ""
            if self._fence_is_block:
                self._seal(sealed)

    def _take_blank(self, sealed: list[Block]) -> None:
        if not self._lines:
            return
        if self._goes_on_over_blanks:
            self._lines.append("")
            self._after_blank = True
        else:
            self._seal(sealed)

    def _take_text(self, line: str, sealed: list[Block]) -> None:
        indent = len(line) - len(line.lstrip())
        is_item = bool(_LIST_ITEM.match(line))
        if self._after_blank and indent < 2 and not is_item:
            self._seal(sealed)
        fence = _FENCE.match(line)
        if fence:
            self._fence = fence[2]
            self._fence_is_block = indent < 2 or not self._goes_on_over_blanks
            if self._fence_is_block:
                self._seal(sealed)
        is_first = not self._lines
        self._lines.append(line)
        self._after_blank = False
        if is_item or (is_first and indent >= 4):
            self._goes_on_over_blanks = True

    def _seal(self, sealed: list[Block]) -> None:
        lines = self._lines
        while lines and not lines[-1].strip():
            lines.pop()
        if lines:
            is_code = bool(_FENCE.match(lines[0]))
            sealed.append(Block("code" if is_code else "markdown", "\n".join(lines)))
        self._lines = []
        self._goes_on_over_blanks = False
        self._after_blank = False


def has_references(text: str) -> bool:
    """Whether a line defines a link that any other block may use."""
    return bool(_REFERENCE.search(text))


def code_blocks(text: str) -> list[str]:
    """The code of every fenced block that stands by itself, without its fences."""
    cutter = BlockCutter()
    return [one.code for one in cutter.feed(text) + cutter.finish() if one.kind == "code"]


def cut(text: str) -> list[Block]:
    """Cut a complete text; one block where a link reference may serve the others."""
    if has_references(text):
        return [Block("markdown", text)]
    cutter = BlockCutter()
    return cutter.feed(text) + cutter.finish()
