"""Texts that a model, a file or a checkpoint might use to get at the terminal or the program."""

ESC = "\x1b"

HOSTILE = (
    f"{ESC}]52;c;ZXZpbA==\x07 clipboard",
    f"{ESC}[2J{ESC}[H cleared",
    "\x9b31m c1 csi \x9d0;title\x9c",
    f"{ESC}]0;title\x07 {ESC}]8;;http://evil\x07link{ESC}]8;;\x07",
    f"{ESC}P1;2|payload{ESC}\\ {ESC}_apc{ESC}\\",
    "bidi \u202egnirts\u202c \u2066iso\u2069 \u200fmark \u061c",
    "hidden \u200b\u200c\u2060\ufeff tags \U000e0041\U000e007f",
    "[@click=app.quit]click[/] [red]x[/red] [/oops] [",
    "entities &#27;[2J &#x202e;abc &rlm;def &#x9b;31m &ZeroWidthSpace;x",
    "<script>alert(1)</script> <b>bold</b>",
    "[text](javascript:alert%281%29) <http://a.b/\x1b[2J> ![alt\x1b[31m](u\x1b)",
    "```py\x1b[2J\nx = '\x1b]52;c;AA\x07'\n```",
    "> " * 200 + "deep",
    "- " * 100 + "deep list",
    "*" * 500 + "[" * 500 + "`" * 99,
    "| a\x1b | b |\n|---|---|\n| \x9b | [x](y\x07) |\n",
    "x" * 5000,
    "漢字" * 500 + "👩‍👩‍👧‍👦" * 20 + "e\u0301" * 50,
    "\x00\x01\x08\x0b\x0c\x0d\x0e\x7f mixed \r over",
    "\ud800 lone surrogate",
    "$(reboot) `reboot` %s {0} \\x1b[2J",
)

FORBIDDEN = {*map(chr, range(0x20)), "\x7f", *map(chr, range(0x80, 0xA0))} - {"\n", "\t"} | set(
    "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c"
)
"""Characters that no row of the screen may hold."""
