"""``qwen38 doctor``: this machine in sentences, each fault with what to do about it."""

import json
import shutil
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from app import clipboard
from app.commands import options
from app.commands.explanation import explanation, lines_of
from app.front_end import plain_reason
from app.paragraph import paragraph
from app.report import FAILED, OK
from app.streams import is_terminal, write_data, write_lines
from app.terminal_keys import has_kitty_keys
from app.visible import visible
from engine.errors import RequestError
from engine.settings import environment
from engine.settings.load import load_settings

if TYPE_CHECKING:
    from engine.doctor import Finding

SIGNS = {"good": "ok", "note": "--", "bad": "!!"}

KEYS = {
    True: "tells Ctrl+Enter and Shift+Enter from Enter",
    False: "tells Ctrl+Enter from Enter not (/now sends at once, Ctrl+J is a new line)",
    None: "does not say how it tells keys",
}
"""How the terminal answers `has_kitty_keys`."""


def doctor(
    *,
    as_json: options.Json = False,
    measure: Annotated[bool, typer.Option("--measure", help="Measure read bandwidth.")] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Say which kernel runs each operation, and why.")
    ] = False,
    model: options.Model = None,
    profile: options.Profile = None,
    shape: Annotated[
        str | None,
        typer.Option(help="Explain 27b or demo in the profile's formats.", metavar="NAME"),
    ] = None,
    sets: options.Sets = None,
) -> int:
    """Say what this machine is and what fits.

    Also what is missing and what to do about it. Exit code 0 when chat can run.
    """
    if shape is not None and not explain:
        raise RequestError("--shape names what is explained.", "Write --explain beside it.")
    from engine.doctor import examine

    given: dict[str, object] = {"model.dir": model, "model.profile": profile}
    settings, _ = load_settings(options.as_settings(given, sets))
    told = explanation(settings, shape) if explain else None
    findings = [*examine(settings, measure=measure), _terminal()]
    can_chat = all(one.state != "bad" for one in findings)
    if as_json:
        data = {"can_chat": can_chat, "findings": [asdict(one) for one in findings]}
        write_data(json.dumps(data | ({"explanation": told} if told else {})) + "\n")
    else:
        topic_cells = max(len(one.topic) for one in findings)
        lines = [line for one in findings for line in _lines(one, topic_cells)]
        lines += ["", *lines_of(told)] if told else []
        write_lines(lines)
    return OK if can_chat else FAILED


def _terminal() -> "Finding":
    from engine.doctor import Finding

    size, program = shutil.get_terminal_size(), environment.terminal_program()
    facts = [f"TERM is {environment.terminal_name()}", f"{size.columns} x {size.lines} cells"]
    facts += [f"drawn by {program}"] if program else []
    facts += ["over SSH"] if environment.over_ssh() else []
    facts += ["inside tmux or screen"] if environment.inside_multiplexer() else []
    facts += ["24-bit colour"] if environment.has_true_colour() else []
    facts += ["no colour wanted"] if environment.no_color() else []
    facts += [KEYS[has_kitty_keys()]] if is_terminal(sys.stdin) else []
    facts += [f"copies by {clipboard.way()}"] if is_terminal(sys.stdout) else []
    facts += [] if is_terminal(sys.stdout) else ["stdout is no terminal"]
    sentence = f"{', '.join(facts)}."
    if reason := plain_reason():
        return Finding("terminal", "note", sentence, f"Chat takes its plain form here: {reason}.")
    return Finding("terminal", "good", sentence)


def _lines(one: "Finding", topic_cells: int) -> list[str]:
    text = f"{one.sentence} {one.mend if one.state != 'good' else ''}".strip()
    head = f"{SIGNS[one.state]}  {one.topic:<{topic_cells}}  "
    return paragraph(visible(text), head)
