"""Colours and signs: dark (the default), light, for colour-blind eyes, the terminal's own palette.

No meaning rests on colour alone: every state also has a word or a sign. ``Look`` is what the
drawing code reads; the Textual themes colour the frame around it.
"""

from dataclasses import dataclass
from functools import lru_cache

from rich.style import Style
from rich.theme import Theme as RichTheme
from textual.theme import Theme

DARK, LIGHT, ANSI = "qwen38-dark", "qwen38-light", "qwen38-ansi"
OKABE_ITO = "qwen38-okabe-ito"
NAMES = {"dark": DARK, "light": LIGHT, "colour-blind": OKABE_ITO, "ansi": ANSI}
"""Theme by the word in the setting ``chat.theme``."""

THEMES = (
    Theme(
        name=DARK,
        primary="#7aa2f7",
        secondary="#73daca",
        accent="#bb9af7",
        warning="#e0af68",
        error="#f7768e",
        success="#9ece6a",
        foreground="#d5dae3",
        background="#12151c",
        surface="#181c25",
        panel="#1f2430",
        dark=True,
    ),
    Theme(
        name=LIGHT,
        primary="#2a5bd7",
        secondary="#00756a",
        accent="#7a3fc4",
        warning="#8f5b00",
        error="#c0243f",
        success="#3f7a1c",
        foreground="#20242c",
        background="#fbfbf9",
        surface="#f1f1ee",
        panel="#e6e6e2",
        dark=False,
    ),
    # the eight colours of Okabe and Ito, which every kind of colour vision tells apart
    Theme(
        name=OKABE_ITO,
        primary="#56b4e9",
        secondary="#009e73",
        accent="#cc79a7",
        warning="#e69f00",
        error="#e06a10",
        success="#009e73",
        foreground="#e6e6e6",
        background="#0d0f13",
        surface="#13161b",
        panel="#1d2129",
        dark=True,
    ),
    Theme(
        name=ANSI,
        primary="ansi_blue",
        secondary="ansi_cyan",
        accent="ansi_magenta",
        warning="ansi_yellow",
        error="ansi_red",
        success="ansi_green",
        foreground="ansi_default",
        background="ansi_default",
        surface="ansi_default",
        panel="ansi_default",
        boost="ansi_default",
        dark=True,
        ansi=True,
        variables={
            "ansi-background": "ansi_black",
            "ansi-foreground": "ansi_white",
            "border": "ansi_blue",
            "border-blurred": "ansi_default",
            "block-cursor-foreground": "ansi_black",
            "block-cursor-background": "ansi_white",
            "input-cursor-background": "ansi_default",
            "input-cursor-foreground": "ansi_default",
            "input-cursor-text-style": "reverse",
            "input-selection-background": "ansi_bright_blue",
            "input-selection-foreground": "ansi_black",
            "screen-selection-background": "ansi_bright_blue",
            "screen-selection-foreground": "ansi_black",
        },
    ),
)


@dataclass(frozen=True, slots=True)
class Signs:
    """Signs that the screen draws with, so that ASCII terminals lose nothing."""

    bar: str = "▌"
    cursor: str = "▎"
    folded: str = "▸"
    unfolded: str = "▾"
    dot: str = "·"
    busy: str = "●"
    idle: str = "○"
    rule: str = "─"
    full: str = "█"
    empty: str = "░"
    corner_top: str = "╭"
    corner_bottom: str = "╰"
    side: str = "│"
    more: str = "…"
    down: str = "↓"
    up: str = "↑"
    caret: str = "▍"
    levels: str = " ▁▂▃▄▅▆▇█"
    """A cell that is filled from below, from nothing to all of it."""

    line: str = "━"
    line_half: str = "╸"
    line_rest: str = "─"
    phases: str = "████"
    """A cell of each phase of a round."""

    degree: str = "°"
    space: str = "·"
    """A space that is to be seen."""


UNICODE = Signs()
ASCII = Signs(
    *("|", ">", ">", "v", "-", "*", "o", "-", "#", ".", "+", "+", "|", "~", "v", "^", "_"),
    *(" ....####", "#", "", ".", "dvah", "", "_"),
)


@dataclass(frozen=True, slots=True)
class Look:
    """Everything the drawing code needs to know about appearance."""

    name: str
    signs: Signs
    text: Style
    dim: Style
    faint: Style
    user: Style
    assistant: Style
    accent: Style
    notice: Style
    error: Style
    good: Style
    code: Style
    code_frame: Style
    inline_code: Style
    heading: Style
    link: Style
    syntax: tuple[tuple[str, Style], ...]
    """Style by the dotted name of a Pygments token type; the longest match wins."""

    def rich_theme(self) -> RichTheme:
        """The styles that Rich's Markdown asks for by name."""
        bold, italic = Style(bold=True), Style(italic=True)
        return RichTheme({
            **{f"markdown.h{level}": self.heading for level in range(1, 7)},
            "markdown.code": self.inline_code,
            "markdown.strong": bold,
            "markdown.em": italic,
            "markdown.s": Style(strike=True),
            "markdown.link": self.link,
            "markdown.link_url": self.dim,
            "markdown.item.bullet": self.assistant,
            "markdown.item.number": self.assistant,
            "markdown.block_quote": self.dim,
            "markdown.hr": self.faint,
            "markdown.table.border": self.faint,
            "markdown.table.header": self.heading,
            "markdown.list": Style(),
            "markdown.item": Style(),
        })  # fmt: skip


@lru_cache(8)
def get_look(name: str, *, ascii_only: bool = False) -> Look:
    """The look that belongs to a theme; a foreign theme gets the terminal's own colours."""
    colours = _COLOURS.get(name, _COLOURS[ANSI])
    s = {part: Style.parse(spec) for part, spec in colours.items()}
    syntax = tuple(
        (token, s[role]) for token, role in sorted(_SYNTAX.items(), key=lambda pair: -len(pair[0]))
    )
    return Look(
        name=name,
        signs=ASCII if ascii_only else UNICODE,
        text=s["text"],
        dim=s["dim"],
        faint=s["faint"],
        user=s["user"],
        assistant=s["assistant"],
        accent=s["accent"],
        notice=s["notice"],
        error=s["error"],
        good=s["good"],
        code=s["code"],
        code_frame=s["faint"],
        inline_code=s["inline"],
        heading=s["heading"],
        link=s["link"],
        syntax=syntax,
    )


_SYNTAX = {
    "Token.Keyword": "keyword",
    "Token.Operator.Word": "keyword",
    "Token.Name.Function": "function",
    "Token.Name.Class": "type",
    "Token.Name.Builtin": "type",
    "Token.Name.Decorator": "function",
    "Token.Name.Tag": "keyword",
    "Token.Name.Attribute": "function",
    "Token.Name.Exception": "type",
    "Token.Literal.String": "string",
    "Token.Literal.Number": "number",
    "Token.Keyword.Constant": "number",
    "Token.Comment": "comment",
    "Token.Generic.Inserted": "string",
    "Token.Generic.Deleted": "deleted",
    "Token.Generic.Heading": "keyword",
}

_COLOURS = {
    DARK: {
        "text": "#d5dae3", "dim": "#98a1b2", "faint": "#4b5364", "user": "bold #7aa2f7",
        "assistant": "bold #73daca", "accent": "bold #bb9af7", "notice": "#e0af68",
        "error": "bold #f7768e", "good": "#9ece6a", "code": "#d5dae3", "inline": "#e5c890",
        "heading": "bold #9db8ff", "link": "underline #7dcfff", "keyword": "#bb9af7",
        "function": "#7aa2f7", "type": "#73daca", "string": "#9ece6a", "number": "#ff9e64",
        "comment": "italic #838da1", "deleted": "#f7768e",
    },
    LIGHT: {
        "text": "#20242c", "dim": "#565e6a", "faint": "#b4b8be", "user": "bold #2a5bd7",
        "assistant": "bold #00695f", "accent": "bold #7a3fc4", "notice": "#835300",
        "error": "bold #c0243f", "good": "#386d18", "code": "#20242c", "inline": "#8a4b08",
        "heading": "bold #1d3f9c", "link": "underline #1f5fbf", "keyword": "#7a3fc4",
        "function": "#2a5bd7", "type": "#00695f", "string": "#386d18", "number": "#9a4f00",
        "comment": "italic #5f6671", "deleted": "#c0243f",
    },
    OKABE_ITO: {
        "text": "#e6e6e6", "dim": "#a2a8b0", "faint": "#4d5560", "user": "bold #56b4e9",
        "assistant": "bold #1fb68d", "accent": "bold #cc79a7", "notice": "#e69f00",
        "error": "bold #e06a10", "good": "#1fb68d", "code": "#e6e6e6", "inline": "#f0e442",
        "heading": "bold #56b4e9", "link": "underline #56b4e9", "keyword": "#cc79a7",
        "function": "#56b4e9", "type": "#1fb68d", "string": "#e69f00", "number": "#f0e442",
        "comment": "italic #a2a8b0", "deleted": "#e06a10",
    },
    ANSI: {
        "text": "default", "dim": "dim", "faint": "dim", "user": "bold blue",
        "assistant": "bold cyan", "accent": "bold magenta", "notice": "yellow",
        "error": "bold red", "good": "green", "code": "default", "inline": "yellow",
        "heading": "bold", "link": "underline", "keyword": "magenta", "function": "blue",
        "type": "cyan", "string": "green", "number": "yellow", "comment": "dim italic",
        "deleted": "red",
    },
}  # fmt: skip
