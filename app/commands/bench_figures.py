"""What the benches share: options, numbers between commas, headings, figures as JSON."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from app.commands import options
from app.known_profiles import known_profiles
from app.output_file import check_output, whole_file
from app.report import say
from app.streams import write_lines
from engine.errors import OutputError, RequestError, how_to_write
from engine.profile import Profile as WeightProfile
from engine.settings.declared import Settings
from engine.settings.load import load_settings
from engine.settings.numbers import whole_number

Shape = Annotated[str, typer.Option("--shape", help="27b or demo.", metavar="NAME")]
Profile = Annotated[str, typer.Option("--profile", help="Weight profile.", metavar="NAME")]
File = Annotated[
    Path | None, typer.Option("--json", help="Write the figures to FILE.", metavar="FILE")
]


def prepare(
    profile: str, device: str | None, file: Path | None, sets: Sequence[str] | None = None
) -> tuple[Settings, WeightProfile]:
    """Read the settings and the profile of a bench, after a look at where its figures shall go."""
    if file is not None:
        check_output("--json", file)
    settings, _ = load_settings(options.as_settings({"model.device": device}, sets))
    return settings, known_profiles(settings, profile)[profile]


def show(result: dict[str, Any], table: Iterable[str], file: Path | None) -> None:
    """Say a bench's notices, print its table and write its figures."""
    for notice in result["notices"]:
        say(notice)
    write_lines(table)
    if file is not None:
        write_figures(file, result)


def parse_numbers(option: str, text: str) -> list[int]:
    """Read numbers between commas.

    Raises:
        RequestError: there is something else.
    """
    try:
        return [whole_number(one) for one in text.split(",")]
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
        with whole_file(file, replace=True) as out:  # figures of before stay until these are there
            out.write(json.dumps(result).encode() + b"\n")
    except OSError as problem:
        raise OutputError(
            f"{file} cannot be written: {problem.strerror}.", how_to_write(problem)
        ) from None
    say(f"Written to {file.absolute()}.")
