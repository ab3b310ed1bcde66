"""What the benches share: options, numbers between commas, headings, figures as JSON."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from app.report import say
from engine.errors import OutputError, RequestError

Shape = Annotated[str, typer.Option("--shape", help="27b or demo.", metavar="NAME")]
Profile = Annotated[str, typer.Option("--profile", help="Weight profile.", metavar="NAME")]
File = Annotated[
    Path | None, typer.Option("--json", help="Write the figures to FILE.", metavar="FILE")
]


def parse_numbers(option: str, text: str) -> list[int]:
    """Read numbers between commas.

    Raises:
        RequestError: there is something else.
    """
    try:
        return [int(one) for one in text.split(",")]
    except ValueError:
        raise RequestError(
            f"{option} is '{text}', expected numbers between commas, such as 1,8,16."
        ) from None


def heading(result: dict[str, Any], what: str) -> list[str]:
    """The lines above a table: what was measured, on which path, against which bandwidth."""
    return [
        f"{result['shape']} {result['profile']} on {result['device']}, {what}",
        f"path: {result['path']}",
        f"read bandwidth measured now: {result['read_gb_s']:.1f} GB/s",
        "",
    ]


def write_figures(file: Path, result: dict[str, Any]) -> None:
    """Write what was measured as JSON, and say where.

    Raises:
        OutputError: the disk refuses.
    """
    try:
        file.write_text(json.dumps(result) + "\n", encoding="utf-8")
    except OSError as problem:
        raise OutputError(f"{file} cannot be written: {problem.strerror}.") from None
    say(f"Written to {file.absolute()}.")
