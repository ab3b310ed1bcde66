"""The options that several commands share, and how options become settings."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from engine.errors import SettingsError

Model = Annotated[
    str | None,
    typer.Option(
        "--model", help="Folder of the checkpoint, or OWNER/NAME of one in the Hugging Face cache.",
        metavar="DIR",
    ),
]  # fmt: skip
Profile = Annotated[str | None, typer.Option("--profile", help="Weight profile.", metavar="NAME")]
Device = Annotated[str | None, typer.Option("--device", help="auto, cpu or cuda.", metavar="NAME")]
System = Annotated[str | None, typer.Option("--system", help="System prompt.", metavar="TEXT")]
ThinkingBudget = Annotated[
    int | None,
    typer.Option("--thinking-budget", help="Most tokens of thinking.", metavar="N", min=0),
]
SettingName = Annotated[
    str | None,
    typer.Argument(help="One, by its full name or its last part, or a section.", metavar="NAME"),
]
Json = Annotated[bool, typer.Option("--json", help="Write one JSON value to stdout.")]
Trace = Annotated[
    Path | None,
    typer.Option(
        "--trace", help="Write the timing for Perfetto at the end, .json or .json.gz.",
        metavar="FILE",
    ),
]  # fmt: skip
Sets = Annotated[
    list[str] | None,
    typer.Option("--set", help="Any setting; see 'qwen38 settings'.", metavar="NAME=VALUE"),
]


def as_settings(
    values: dict[str, object], sets: Sequence[str] | None, option: str = "--set"
) -> dict[str, object]:
    """What the command line says about settings, by full name.

    Args:
        values: the command's own options by full name; None was not given.
        sets: ``NAME=VALUE`` texts; an own option wins over them.
        option: what the person gave these texts with.

    Raises:
        SettingsError: a text holds no ``=``, or the folder of the model has no name.
    """
    if values.get("model.dir") == "":
        raise SettingsError("--model names no folder.", "Leave it out, or write --model DIR.")
    found: dict[str, object] = {}
    for text in sets or ():
        name, sign, value = text.partition("=")
        if not sign:
            raise SettingsError(f"{option} {text} names no value.", f"Write {option} NAME=VALUE.")
        found[name.strip()] = value.strip()
    return found | {name: value for name, value in values.items() if value is not None}
