"""Drawing finished Markdown into strips, through Rich, without trusting what it says.

Links are text with their target behind it, images are words, raw HTML is shown as written, and
what an entity decodes to passes the one door again. Nothing from a text becomes markup or an
escape sequence.
"""

import io
from functools import lru_cache
from typing import ClassVar, cast

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich import box, markdown
from rich.console import Console, ConsoleOptions, JustifyMethod, RenderResult
from rich.segment import Segment
from rich.style import Style
from rich.table import Table
from rich.text import Text
from textual.strip import Strip

from app.tui.code import CodeDrawing
from app.tui.theme import Look
from app.visible import visible

MIN_COLUMN_CELLS = 7
"""A table whose columns would be narrower than this is drawn as rows of name and value."""

_ASCII = str.maketrans({"•": "*", "▌": "|", "─": "-", "━": "-", "│": "|", "┃": "|", "╇": "+"})


class LookConsole(Console):
    """A console that writes nowhere and remembers the look it draws with."""

    look: Look


@lru_cache(8)
def console_for(look: Look) -> LookConsole:
    """The console for a look."""
    console = LookConsole(
        file=io.StringIO(),
        force_terminal=True,
        color_system="truecolor",
        legacy_windows=False,
        markup=False,
        emoji=False,
        highlight=False,
        theme=look.rich_theme(),
        width=80,
    )
    console.look = look
    return console


@lru_cache(1)
def _parser() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"])


def draw_markdown(source: str, width: int, look: Look) -> list[Strip]:
    """Draw Markdown; what comes back are rows of at most ``width`` cells."""
    console = console_for(look)
    options = console.options.update(width=max(width, 4), height=None)
    document = _Document(source)
    lines = console.render_lines(document, options, style=look.text, pad=False)
    rows = [[Segment(one.text, _without_link(one.style)) for one in line] for line in lines]
    while rows and not any(one.text.strip() for one in rows[-1]):
        rows.pop()
    while rows and not any(one.text.strip() for one in rows[0]):
        rows.pop(0)
    if look.signs.rule == "-":
        rows = [[Segment(one.text.translate(_ASCII), one.style) for one in row] for row in rows]
    return [Strip(row) for row in rows]


def _without_link(style: Style | None) -> Style | None:
    return style.update_link(None) if style is not None and style.link else style


class _Heading(markdown.Heading):
    LEVEL_ALIGN: ClassVar = dict.fromkeys(("h1", "h2", "h3", "h4", "h5", "h6"), "left")


class _Item(markdown.ListItem):
    """A list item whose number has its full stop."""

    def render_number(
        self, console: Console, options: ConsoleOptions, number: int, last_number: int
    ) -> RenderResult:
        label = f"{number}. "
        width = len(str(last_number)) + 3
        lines = console.render_lines(
            self.elements, options.update(width=options.max_width - width), style=self.style
        )
        style = console.get_style("markdown.item.number")
        for at, line in enumerate(lines):
            yield Segment(label.rjust(width) if at == 0 else " " * width, style)
            yield from line
            yield Segment.line()


class _CodeBlock(markdown.CodeBlock):
    """Code inside a list or a quote, in the frame that every code block has."""

    def __init__(self, lexer_name: str, theme: str) -> None:
        super().__init__("" if lexer_name == "text" else lexer_name, theme)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        look = cast("LookConsole", console).look
        code = str(self.text).rstrip("\n")
        drawing = CodeDrawing(code, self.lexer_name, options.max_width, look)
        while not drawing.is_coloured:
            drawing.colour_more()
        for strip in drawing.strips:
            yield from strip
            yield Segment.line()


class _Table(markdown.TableElement):
    """A table that fits: columns shrink and wrap, and below a limit it turns into rows."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        header = self.header.row.cells if self.header and self.header.row else []
        body = [row.cells for row in self.body.rows] if self.body else []
        if header and options.max_width < len(header) * MIN_COLUMN_CELLS:
            yield from self._as_rows([cell.content for cell in header], body)
            return
        table = Table(
            box=box.SIMPLE_HEAD,
            pad_edge=False,
            border_style="markdown.table.border",
            show_edge=False,
            collapse_padding=True,
        )
        for cell in header:
            table.add_column(
                _styled(cell.content, "markdown.table.header"),
                justify=cast("JustifyMethod", cell.justify),
                overflow="fold",
            )
        for row in body:
            table.add_row(*(cell.content for cell in row))
        yield table

    @staticmethod
    def _as_rows(names: list[Text], body: list[list[markdown.TableDataElement]]) -> RenderResult:
        for row in body:
            for name, cell in zip(names, row, strict=False):
                yield Text.assemble(_styled(name, "markdown.table.header"), ": ", cell.content)
            yield Text()


def _styled(text: Text, style: str) -> Text:
    copy = text.copy()
    copy.stylize(style)
    return copy


class _Document(markdown.Markdown):
    elements: ClassVar = {
        **markdown.Markdown.elements,
        "heading_open": _Heading,
        "list_item_open": _Item,
        "fence": _CodeBlock,
        "code_block": _CodeBlock,
        "table_open": _Table,
    }

    def __init__(self, source: str) -> None:
        super().__init__("", hyperlinks=False)
        self.markup = source
        self.parsed = [_shown(token) for token in _parser().parse(source)]


def _shown(token: Token) -> Token:
    """The token with everything that an entity may have decoded made visible again."""
    token.content = visible(token.content)
    token.info = visible(token.info)
    for name, value in token.attrs.items():
        if isinstance(value, str):
            token.attrs[name] = visible(value)
    if token.children:
        token.children = _plain_autolinks([_shown(child) for child in token.children])
    return _image_as_text(token) if token.type == "image" else token


def _image_as_text(image: Token) -> Token:
    target = str(image.attrs.get("src", ""))
    return Token("text", "", 0, content=f"[{image.content or 'image'}] ({target})")


def _plain_autolinks(tokens: list[Token]) -> list[Token]:
    """A link whose text is its own target is shown once, as text."""
    kept: list[Token] = []
    skip_close = False
    for index, token in enumerate(tokens):
        if token.type == "link_open" and index + 2 < len(tokens):
            text = tokens[index + 1]
            target = str(token.attrs.get("href", ""))
            closes = tokens[index + 2].type == "link_close"
            if closes and text.type == "text" and target.removeprefix("mailto:") == text.content:
                skip_close = True
                continue
        if token.type == "link_close" and skip_close:
            skip_close = False
            continue
        kept.append(token)
    return kept
